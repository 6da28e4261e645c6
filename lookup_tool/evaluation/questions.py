"""Questions with known answers: reading their file, and finding their answers in a knowledge base.

A file is JSONL, one question a line. Ids are taken as people write them: an entry with or without
its suffix, a section by the anchor of any of its headings.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from lookup_tool.documents.passages import slug_of
from lookup_tool.errors import ConfigurationError, SourceNotFoundError
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import StoredEntry
from lookup_tool.text import category_key

SUFFIXES = ("", ".md", ".markdown", ".mdx")

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Question(BaseModel):
    """A question, and where its answer stands."""

    model_config = ConfigDict(
        frozen=True, use_attribute_docstrings=True, coerce_numbers_to_str=True
    )

    id: Text
    """Its name in reports; by default the number of its line."""

    query: Text
    """What is asked."""

    relevant: tuple[Text, ...] = ()
    """Entries that answer it: paths under the folder of documents, with or without suffix."""

    relevant_sections: tuple[Text, ...] = ()
    """Sections that answer it, as `entry#anchor-of-its-heading`."""

    grades: Mapping[Text, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """How well an entry or section answers it; 1 for those without a grade, 0 not at all."""

    category: Text | None = None
    """Category of the answer; by default that of the relevant entries."""

    kind: Text | None = None
    """Kind of question, to group the report by."""

    language: Text | None = None
    """Language of the question, to group the report by."""

    answerable: bool
    """Whether the documents answer it; by default, whether anything is relevant."""

    @model_validator(mode="before")
    @classmethod
    def _answerable_by_default(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        known = any(given.get(name) for name in ("relevant", "relevant_sections", "grades"))
        return {"answerable": known, **given}


def read_questions(path: str | Path) -> tuple[Question, ...]:
    """Read questions from a JSONL file.

    Raises:
        ConfigurationError: The file cannot be read, is empty, or a line is no valid question.
    """
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigurationError(f"{file}: cannot be read ({reason}); give a JSONL file") from error
    questions: dict[str, Question] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        question = _question(line, file, number)
        if question.id in questions:
            raise ConfigurationError(f"{file}:{number}: the id {question.id!r} occurs before")
        questions[question.id] = question
    if not questions:
        raise ConfigurationError(f"{file}: holds no questions; write one JSON object a line")
    return tuple(questions.values())


def _question(line: str, file: Path, number: int) -> Question:
    try:
        record = json.loads(line)
        named = {"id": str(number), **record} if isinstance(record, dict) else record
        return Question.model_validate(named)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where}: {first['msg']}" if where else "a question must be a JSON object"
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error})"
    raise ConfigurationError(f"{file}:{number}: {problem}")


@dataclass(frozen=True)
class Gold:
    """The sources of one knowledge base that answer a question, with their grades."""

    documents: Mapping[str, int]
    """Grade of each relevant entry, by source; those that are missing under their given id."""

    sections: Mapping[str, int]
    """Grade of each relevant section, by source; those that are missing under their given id."""

    missing: tuple[str, ...]
    """Given ids that the knowledge base does not hold, or not for these groups."""

    categories: frozenset[str]
    """Keys of the categories that hold the answer."""

    category_name: str | None
    """The first of them as it is written."""

    @property
    def expected(self) -> frozenset[str]:
        """Sources that answer: sections where the question names them, else entries."""
        return self.relevant_sections if self.sections else self.relevant_documents

    @property
    def relevant_documents(self) -> frozenset[str]:
        """Entries with a grade above 0."""
        return frozenset(source for source, grade in self.documents.items() if grade)

    @property
    def relevant_sections(self) -> frozenset[str]:
        """Sections with a grade above 0."""
        return frozenset(source for source, grade in self.sections.items() if grade)


@dataclass(frozen=True)
class _Place:
    """The entry, and the section of it, that a given id names."""

    document: str
    section: str | None
    category: str | None = None
    missing: bool = False


class GoldFinder:
    """Finds the answers of questions in a knowledge base; reads each entry once."""

    def __init__(self, knowledge: KnowledgeBase, groups: frozenset[str] = frozenset()) -> None:
        self._knowledge = knowledge
        self._groups = groups
        self._entries: dict[str, _Anchors | None] = {}

    def find(self, question: Question) -> Gold:
        """Return the sources that answer a question."""
        given = dict.fromkeys((*question.relevant, *question.relevant_sections), 1)
        grades = {**given, **question.grades}
        places = {name: self._place(name) for name in grades}
        documents: dict[str, int] = {}
        sections: dict[str, int] = {}
        for name, place in places.items():
            documents[place.document] = max(grades[name], documents.get(place.document, 0))
            if place.section is not None:
                sections[place.section] = max(grades[name], sections.get(place.section, 0))
        held = [place.category for name, place in places.items() if grades[name]]
        categories = [question.category] if question.category else [name for name in held if name]
        return Gold(
            documents=documents,
            sections=sections,
            missing=tuple(name for name, place in places.items() if place.missing),
            categories=frozenset(category_key(category) for category in categories),
            category_name=categories[0] if categories else None,
        )

    def _place(self, name: str) -> _Place:
        entry = self._entry(name)
        if entry is not None:
            return _Place(entry.source, None, entry.category)
        path, mark, anchor = name.rpartition("#")
        if not mark:
            return _Place(name, None, missing=True)
        entry = self._entry(path)
        if entry is None:
            return _Place(path, name, missing=True)
        section = entry.sections.get(anchor) or entry.sections.get(slug_of(anchor))
        return _Place(entry.source, section or name, entry.category, missing=section is None)

    def _entry(self, path: str) -> "_Anchors | None":
        if path not in self._entries:
            self._entries[path] = self._read(path.removeprefix("./").lstrip("/"))
        return self._entries[path]

    def _read(self, path: str) -> "_Anchors | None":
        for suffix in SUFFIXES:
            try:
                entry = self._knowledge.read(path + suffix, self._groups)
            except SourceNotFoundError:
                continue
            if entry.source == path + suffix:  # `read` finds sections too
                return _anchors(entry)
        return None


@dataclass(frozen=True)
class _Anchors:
    """An entry, and the anchors by which its sections may be named."""

    source: str
    category: str | None
    sections: Mapping[str, str]
    """Source of a section by its own anchor, and by that of the headings that lead to it."""


def _anchors(entry: StoredEntry) -> _Anchors:
    """List the anchors of an entry; the first heading's leads to the entry's own section."""
    own = {p.source.removeprefix(entry.source)[1:]: p.source for p in entry.passages}
    last = {slug_of(p.breadcrumb[-1]): p.source for p in reversed(entry.passages) if p.breadcrumb}
    return _Anchors(entry.source, entry.category, {**last, **own})


def missing_ids(golds: Iterable[Gold]) -> tuple[str, ...]:
    """Return every given id that the knowledge base does not hold, each once."""
    return tuple(dict.fromkeys(name for gold in golds for name in gold.missing))
