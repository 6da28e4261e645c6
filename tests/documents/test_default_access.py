"""A folder can be closed by default: who reads an entry that does not say who may."""

from pathlib import Path

import pytest
from command_line import run
from embedders import HashEmbedder
from langchain_core.documents import Document
from mutations import content
from pydantic import ValidationError

from lookup_tool import KnowledgeBase, LookupConfig
from lookup_tool.config import PassageConfig
from lookup_tool.errors import SourceNotFoundError

FILES = {
    "open.md": "---\naccess: public\n---\n# Opening hours\n\nNine to five.\n",
    "plain.md": "# Parking\n\nBehind the house.\n",
    "board.md": "---\naccess: [board]\n---\n# Bonus\n\nTen per cent.\n",
    "sealed.md": "---\ntitle: a: b\naccess: [hr\n---\n# Salaries\n\nBroken.\n",
}
HASH = HashEmbedder()
Groups = frozenset[str]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def readable(kb: Path, *groups: str) -> set[str]:
    """Return the files that a caller of these groups can read."""
    with KnowledgeBase.open(kb, embedder=HASH) as knowledge:
        return readable_in(knowledge, frozenset(groups))


def readable_in(knowledge: KnowledgeBase, groups: Groups) -> set[str]:
    found: set[str] = set()
    for source in FILES:
        try:
            found.add(knowledge.read(source, groups).source)
        except SourceNotFoundError:
            continue
    return found


def build(docs: Path, kb: Path, default: str | list[str] | None = None) -> None:
    KnowledgeBase.build(docs, kb, embedder=HASH, default_access=default).close()


def test_an_open_folder_hides_what_says_so(docs: Path, tmp_path: Path) -> None:
    build(docs, tmp_path / "kb")

    assert readable(tmp_path / "kb") == {"open.md", "plain.md"}
    assert readable(tmp_path / "kb", "board", "public") == {"open.md", "plain.md", "board.md"}


@pytest.mark.parametrize("default", ["staff", ["staff"], ["guests", "staff"], [" staff "]])
def test_a_closed_folder_shows_what_says_public(
    docs: Path, tmp_path: Path, default: str | list[str]
) -> None:
    build(docs, tmp_path / "kb", default)

    assert readable(tmp_path / "kb") == {"open.md"}
    assert readable(tmp_path / "kb", "staff") == {"open.md", "plain.md"}
    assert readable(tmp_path / "kb", "board") == {"open.md", "board.md"}
    assert readable(tmp_path / "kb", "staff", "board", "hr", "public") == set(FILES) - {"sealed.md"}


@pytest.mark.parametrize(
    ("default", "everybody"),
    [("public", {"open.md", "plain.md"}), (["staff", "PUBLIC"], {"open.md", "plain.md"})],
)
def test_a_folder_that_is_public_by_default_is_open(
    docs: Path, tmp_path: Path, default: str | list[str], everybody: set[str]
) -> None:
    build(docs, tmp_path / "kb", default)

    assert readable(tmp_path / "kb") == everybody


def test_a_folder_can_be_closed_to_everybody(docs: Path, tmp_path: Path) -> None:
    build(docs, tmp_path / "kb", [])

    assert readable(tmp_path / "kb") == {"open.md"}
    assert readable(tmp_path / "kb", "staff", "board", "public", "") == {"open.md", "board.md"}


@pytest.mark.parametrize(
    "config",
    [
        None,
        LookupConfig(),
        LookupConfig(passages=PassageConfig(max_tokens=64)),
    ],
    ids=["no settings", "shipped settings", "other cuts"],
)
def test_a_later_sync_keeps_the_default(
    docs: Path, tmp_path: Path, config: LookupConfig | None
) -> None:
    kb = tmp_path / "kb"
    build(docs, kb, "staff")
    (docs / "new.md").write_text("# Bicycles\n\nIn the yard.\n", encoding="utf-8")

    report = KnowledgeBase.sync(docs, kb, embedder=HASH, config=config)

    assert (report.added, report.changed) == (("new.md",), ())
    with KnowledgeBase.open(kb, embedder=HASH) as knowledge:
        assert knowledge.manifest.passage_settings.default_access == ("staff",)
        assert knowledge.read("new.md", frozenset({"staff"})).source == "new.md"
        with pytest.raises(SourceNotFoundError):
            knowledge.read("new.md")
    assert readable(kb) == {"open.md"}


@pytest.mark.parametrize(
    ("before", "after", "readers"),
    [
        (None, "staff", [set(), {"plain.md"}]),
        ("board", "staff", [set(), {"plain.md"}]),
        ("staff", "public", [{"plain.md"}, {"plain.md"}]),
        ("staff", [], [set(), set()]),
    ],
)
def test_a_sync_with_another_default_reads_everything_again_and_embeds_nothing(
    docs: Path,
    tmp_path: Path,
    before: str | None,
    after: str | list[str],
    readers: list[set[str]],
) -> None:
    kb = tmp_path / "kb"
    build(docs, kb, before)

    report = KnowledgeBase.sync(docs, kb, embedder=HASH, default_access=after)

    assert (report.switched, report.embedded) == (True, 0)
    assert (report.added, report.changed, report.removed, report.renamed) == ((), (), (), ())
    assert [readable(kb), readable(kb, "staff")] == [{"open.md", *those} for those in readers]
    assert not KnowledgeBase.sync(docs, kb, embedder=HASH, default_access=after).switched
    assert not KnowledgeBase.sync(docs, kb, embedder=HASH).switched
    build(docs, tmp_path / "fresh", after)
    assert content(kb) == content(tmp_path / "fresh")


def test_a_damaged_knowledge_base_is_mended_as_closed_as_it_was(docs: Path, tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    build(docs, kb, "staff")
    (kb / "generation-1" / "vectors.npy").unlink()

    assert KnowledgeBase.sync(docs, kb, embedder=HASH).damaged == ("vectors.npy",)
    assert (readable(kb), readable(kb, "staff")) == ({"open.md"}, {"open.md", "plain.md"})


def test_the_default_of_the_settings_holds_unless_another_is_given(
    docs: Path, tmp_path: Path
) -> None:
    kb, closed = tmp_path / "kb", LookupConfig(passages=PassageConfig(default_access=("staff",)))

    KnowledgeBase.sync(docs, kb, embedder=HASH, config=closed)
    assert (readable(kb), readable(kb, "staff")) == ({"open.md"}, {"open.md", "plain.md"})
    KnowledgeBase.build(docs, kb, embedder=HASH, config=closed, default_access="board").close()
    assert (readable(kb, "staff"), "plain.md" in readable(kb, "board")) == ({"open.md"}, True)


def test_documents_can_be_closed_by_default() -> None:
    documents = [Document(text, metadata={"source": name}) for name, text in FILES.items()]

    with KnowledgeBase.from_documents(
        documents, embedder=HASH, default_access=["staff"]
    ) as knowledge:
        assert readable_in(knowledge, frozenset()) == {"open.md"}
        assert readable_in(knowledge, frozenset({"staff"})) == {"open.md", "plain.md"}


def test_the_name_of_a_default_group_changes_nothing_that_others_receive(
    docs: Path, tmp_path: Path
) -> None:
    build(docs, tmp_path / "a", "staff")
    build(docs, tmp_path / "b", "guests")

    with (
        KnowledgeBase.open(tmp_path / "a", embedder=HASH) as one,
        KnowledgeBase.open(tmp_path / "b", embedder=HASH) as other,
    ):
        assert one.version_for(frozenset()) == other.version_for(frozenset())
        assert one.version_for(frozenset({"board"})) == other.version_for(frozenset({"board"}))


@pytest.mark.parametrize("default", ["", " ", ["staff", ""]])
def test_a_default_group_needs_a_name(default: str | list[str]) -> None:
    with pytest.raises(ValidationError, match="an access group needs a name"):
        PassageConfig.model_validate({"default_access": default})


def test_commands_close_a_folder_and_say_so(docs: Path, tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    assert run("ingest", docs, "--into", kb).code == 0
    assert any(line.split() == ["entries", "without", "access", "everybody"] for line in info(kb))

    assert run("ingest", docs, "--into", kb, "--default-access", "staff").code == 0
    assert any(line.split() == ["entries", "without", "access", "staff"] for line in info(kb))
    assert run("show", "plain.md", "--kb", kb).code == 1
    assert run("show", "plain.md", "--kb", kb, "--group", "staff").code == 0
    assert run("sync", docs, "--kb", kb).lines[0].startswith("nothing changed")

    several = ("--default-access", "guests", "--default-access", "staff")
    assert run("sync", docs, "--kb", kb, *several).code == 0
    assert any(line.endswith(" guests, staff") for line in info(kb))
    assert run("show", "plain.md", "--kb", kb, "--group", "guests").code == 0
    assert run("sync", docs, "--kb", kb, "--default-access", "public").code == 0
    assert run("show", "plain.md", "--kb", kb).code == 0


def info(kb: Path) -> list[str]:
    return run("info", kb).lines


@pytest.mark.parametrize("command", [("ingest", "docs", "--into"), ("sync", "docs", "--kb")])
def test_a_command_refuses_a_group_without_a_name(command: tuple[str, ...], tmp_path: Path) -> None:
    ran = run(*command, tmp_path / "kb", "--default-access", " ")

    assert (ran.code, "a group needs a name" in ran.err) == (2, True)
