"""The error tree: one class for each thing a caller would do differently.

Finding nothing is a result, never an error. Every message names the thing and the remedy in one
line, so a command line or a log can show it as it is.
"""

from pathlib import Path


class LookupToolError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigurationError(LookupToolError):
    """A setting or an argument cannot be used as given."""


class MissingExtraError(ConfigurationError):
    """An optional dependency is needed and not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'lookup-tool[{extra}]'")
        self.extra = extra


class EmbeddingError(LookupToolError):
    """The embedder failed, or returned vectors that cannot be searched."""


class EmbeddingTimeoutError(EmbeddingError):
    """The embedder did not answer in time."""

    def __init__(self, embedder: str, seconds: float) -> None:
        super().__init__(f"{embedder} did not answer within {seconds:.3g} s; try again later")


class LookupUnavailableError(LookupToolError):
    """A lookup failed or is switched off; whether there is an answer is not known."""

    def __init__(self, message: str, invocation_id: str) -> None:
        super().__init__(message)
        self.invocation_id = invocation_id


class KnowledgeError(LookupToolError):
    """Base of what can be wrong with a knowledge base on disk."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class KnowledgeNotFoundError(KnowledgeError):
    """There is no knowledge base, or no folder of documents, at that path."""


class KnowledgeDamagedError(KnowledgeError):
    """A file of the knowledge base is missing, cut short or changed."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, f"{problem}; build it again with `lookup-tool ingest`")


class KnowledgeChangedError(KnowledgeError):
    """A lookup that was interrupted goes on, and its generation is not the current one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "changed while the lookup was interrupted; ask again")


class CallerChangedError(LookupToolError):
    """A lookup that was interrupted goes on for somebody else than it was begun for."""

    def __init__(self) -> None:
        super().__init__(
            "the lookup was begun for a caller with other access groups; ask again, in a thread "
            "of this caller's own"
        )


class KnowledgeBusyError(KnowledgeError):
    """Another process is writing this knowledge base."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "another process is writing here; try again when it has finished")


class RemovalsRefusedError(KnowledgeError):
    """A sync would remove most of a knowledge base: its folder may be only half there."""

    def __init__(self, path: Path, problem: str, removed: int, entries: int) -> None:
        super().__init__(path, problem)
        self.removed = removed
        """Entries that would be gone."""
        self.entries = entries
        """Entries that the knowledge base has."""


class EmbedderMismatchError(KnowledgeError):
    """The embedder is not the one that the knowledge base was built with."""


class SourceNotFoundError(KnowledgeError):
    """No entry that the caller may read has this source."""


class TraceStoreError(LookupToolError):
    """The trace store cannot be opened or written."""

    def __init__(self, message: str, reason: str = "the trace store failed") -> None:
        super().__init__(message)
        self.reason = reason
        """Why, without a path or a URL: what anybody may read."""
