"""Put the result together: status, levels and what the agent is told."""

from dataclasses import dataclass, field

from lookup_tool.config import AssembleConfig
from lookup_tool.contracts import (
    CompletenessHint,
    ContextPack,
    EvidenceBlock,
    EvidenceStatus,
    LookupResult,
    RelevanceLevel,
    RerankTrace,
    RetrievalTrace,
)
from lookup_tool.schema import QueryTerm
from lookup_tool.stages.evidence import Evidence
from lookup_tool.stages.pack import contents
from lookup_tool.text import terms as terms_of

MAX_MISSING = 20


@dataclass(frozen=True)
class Findings:
    """What the stages before found."""

    trace: RetrievalTrace
    terms: tuple[QueryTerm, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """The blocks before ranking, which know the query terms that they mention."""

    blocks: tuple[EvidenceBlock, ...] = ()
    rerank_trace: RerankTrace = field(default_factory=RerankTrace)
    pack: ContextPack = field(default_factory=lambda: ContextPack(budget=0))
    searched: int = 0
    """Passages that the caller may see."""

    retrieval_enabled: bool = True


def assemble(findings: Findings, config: AssembleConfig) -> LookupResult:
    """Put the result of one lookup together."""
    status = _status(findings)
    blocks = findings.blocks
    legacy = config.legacy_fields and blocks
    return LookupResult(
        found=bool(blocks),
        evidence_status=status,
        message=_message(status, findings),
        relevance_level=_level(findings, config),
        completeness_hint=_completeness(findings),
        evidence_blocks=blocks,
        context_pack=findings.pack,
        retrieval_trace=findings.trace,
        rerank_trace=findings.rerank_trace,
        primary=blocks[0] if legacy else None,
        supplement=blocks[1:] if legacy else None,
    )


def summary(pack: ContextPack) -> str:
    """Say in one line what is handed to the agent."""
    shown = [part.source for part in pack.included]
    entries = len({source.partition("#")[0] for source in shown})
    sections = "1 section" if len(shown) == 1 else f"{len(shown)} sections"
    return f"Found evidence in {sections} of {'1 entry' if entries == 1 else f'{entries} entries'}."


def _status(findings: Findings) -> EvidenceStatus:
    trace = findings.trace
    if trace.error is not None:
        return "unavailable"
    if not findings.retrieval_enabled and trace.transformed_query:
        return "unavailable"
    if not findings.blocks:
        return "no_evidence"
    top = max(block.similarity for block in findings.blocks)
    return "sufficient" if top >= trace.attempts[-1].reference_threshold else "weak"


def _message(status: EvidenceStatus, findings: Findings) -> str:
    if not findings.trace.transformed_query:
        return "The query is empty: call again with the question in plain words."
    if status == "unavailable":
        if not findings.retrieval_enabled:
            return "The knowledge base is switched off; whether it holds an answer is not known."
        return (
            "The lookup failed; this does not mean that there is nothing. Whether the knowledge "
            "base holds an answer is not known: try again later, or say that it is unavailable."
        )
    if status == "no_evidence":
        category = (findings.trace.attempts[0].filter or {}).get("category")
        first = f", those of the category {category!r} first" if category else ""
        return (
            f"The knowledge base holds no evidence on this ({findings.searched} passages were "
            f"searched{first}). Repeating the same query will not help: try once with other words, "
            "or tell the user that the documents do not answer this. Do not answer from memory."
        )
    if not findings.pack.included:
        return (
            f"Found evidence, but none fits into the context budget of {findings.pack.budget} "
            f"{findings.pack.unit}: say that the lookup is set up with too small a budget."
        )
    note = " It is a weak match: check that it answers the question." if status == "weak" else ""
    return summary(findings.pack) + note


def _level(findings: Findings, config: AssembleConfig) -> RelevanceLevel:
    probability = findings.trace.answerability
    if not findings.blocks or probability is None:
        return "none"
    if probability >= config.high:
        return "high"
    return "medium" if probability >= config.medium else "low"


def _completeness(findings: Findings) -> CompletenessHint:
    pack = findings.pack
    mentioned = _mentioned(findings)
    missing = tuple(
        dict.fromkeys(
            term.surface
            for place, term in enumerate(findings.terms)
            if term.weight > 0 and place not in mentioned
        )
    )[:MAX_MISSING]
    if not pack.included:
        note = "no evidence is included"
        return CompletenessHint(level="none", missing_terms=missing, note=note)
    cut = [part.source for part in pack.included if part.truncated]
    notes = [f"not mentioned: {', '.join(missing)}"] if missing else []
    notes += [f"cut to fit: {', '.join(cut)}"] if cut else []
    if pack.omitted:
        notes.append(f"left out: {', '.join(part.source for part in pack.omitted)}")
    weaker = len(findings.evidence) - len(findings.blocks)
    notes += [f"weaker blocks not returned: {weaker}"] if weaker > 0 else []
    return CompletenessHint(
        level="partial" if notes else "complete",
        missing_terms=missing,
        note="; ".join(notes) or "every term of the question is mentioned",
    )


def _mentioned(findings: Findings) -> set[int]:
    """Return the places of the query terms that the packed evidence mentions."""
    by_source = {evidence.source: evidence.section for evidence in findings.evidence}
    mentioned: set[int] = set()
    for part, shown in zip(findings.pack.included, contents(findings.pack.text), strict=True):
        section = by_source[part.source]
        mentioned |= section.in_heading
        if part.truncated:
            said = set(terms_of(shown))
            mentioned |= {place for place, term in enumerate(findings.terms) if term.term in said}
        else:
            mentioned |= section.in_text
    return mentioned
