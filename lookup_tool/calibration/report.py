"""What a calibration says: frozen models, camelCase in JSON like the result contract."""

from pydantic import Field

from lookup_tool.contracts import Contract
from lookup_tool.schema import Thresholds


class Rates(Contract):
    """What a rule, or a threshold, lets through."""

    kept: float = Field(ge=0, le=1)
    """Share of the answerable questions that get evidence."""

    false_evidence: float = Field(ge=0, le=1)
    """Share of the unanswerable questions that get evidence. Without labels, of the questions whose
    own entry was hidden: as others may answer them, it is more than the true share."""


class CurvePoint(Rates):
    """The rates at one midpoint of the answerability rule."""

    midpoint: float
    """Similarity that, without a word of the question, is just enough."""


class FilterRates(Contract):
    """What the reference threshold does to filtered searches."""

    caught: float = Field(ge=0, le=1)
    """Share of the searches in the nearest wrong category that are under it, and repeated."""

    needless: float = Field(ge=0, le=1)
    """Share of the searches in the right category that are under it too."""


class State(Contract):
    """Thresholds, and what they do to the questions."""

    thresholds: Thresholds
    """Reference threshold, evidence floor and answerability rule."""

    rates: Rates
    """What the answerability rule does."""

    filters: FilterRates | None
    """What the reference threshold does; null where no category is known."""


class Calibration(Contract):
    """Thresholds that were measured on one corpus with one embedder."""

    knowledge_version: str
    """Version of the knowledge base."""

    embedder: str
    """Its embedding model."""

    labelled: bool
    """Whether the questions were given; else they are sentences of the documents."""

    answerable: int
    """Answerable questions that it was measured with."""

    unanswerable: int
    """Unanswerable ones; without labels, those whose own entry was hidden."""

    dropped: int
    """Sentences that were left out, as they stand in another entry too."""

    before: State
    """As it was."""

    after: State
    """As measured."""

    curve: tuple[CurvePoint, ...]
    """The rates over the midpoint, ascending, with the other weights as measured."""

    written: bool
    """Whether the knowledge base has the new thresholds."""

    @property
    def gain(self) -> str:
        """What the user gains, in one line."""
        kept, false = (
            f"{getattr(self.before.rates, name):.0%} -> {getattr(self.after.rates, name):.0%}"
            for name in ("kept", "false_evidence")
        )
        if self.labelled:
            return f"keeps {kept} of the answerable questions; false evidence {false}"
        return (
            f"finds {kept} of the documents' own sentences; with their entry hidden, {false} "
            "(others may say the same)"
        )
