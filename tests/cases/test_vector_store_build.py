"""Vector store: what is in the index, and for how long.

Families: a second build replaces the first, whatever changed, moved or vanished, in vectors, hints
and filters alike; files that are code are never run; and readers keep a whole index while writers
replace it.
"""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from case_builders import EVERYTHING, Folder, look_up_everything, sections
from embedders import HashEmbedder
from langchain_core.documents import Document

from lookup_tool import (
    KnowledgeBase,
    LookupResult,
    LookupToolError,
    TraceStore,
    create_lookup_tool,
)
from lookup_tool.errors import KnowledgeDamagedError, KnowledgeNotFoundError

# Building again

THREE = {
    "a.md": "---\ntitle: Prices\ncategory: sales\nkeywords: [price]\n---\nThe price is ten.\n",
    "b.md": "# Doors\nDoor codes are secret.\n## Codes\nAsk for a code.\n",
    "sub/c.md": "# Parking\nPark on level two.\n",
}


def comparable(result: LookupResult) -> Any:
    trace = result.retrieval_trace
    return (sections(result), trace.hints, trace.candidate_count, trace.knowledge_version)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_16_building_the_same_folder_again_changes_nothing(folder: Folder, times: int) -> None:
    folder.write(THREE)
    first = folder.ask("price of doors")
    for _ in range(times):
        again = folder.ask("price of doors")
        assert comparable(again) == comparable(first)
    with KnowledgeBase.open(folder.kb, embedder=HashEmbedder()) as knowledge:
        assert (knowledge.count(), knowledge.manifest.entries) == (4, 3)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"b.md": "# Doors\nDoors are open.\n"}, {"b.md"}, id="A-16-changed"),
        pytest.param({"b.md": ""}, set(), id="emptied"),
        pytest.param({"b.md": "---\naccess: [staff]\n---\n# Doors\nX.\n"}, set(), id="restricted"),
        pytest.param({"b.md": "# Doors\nX.\n## Keys\nY.\n"}, {"b.md", "b.md#keys"}, id="heading"),
        pytest.param({"b.md": "---\naccess: {\n---\nX.\n"}, set(), id="broken"),
    ],
)
def test_a_changed_file_replaces_all_its_sections(
    folder: Folder, change: dict[str, str], expected: set[str]
) -> None:
    folder.write(THREE)
    folder.ask()
    folder.write(change)

    found = {source for source, _ in sections(folder.ask("door codes"))}

    assert {source for source in found if source.startswith("b.md")} == expected


def test_a_21_deleted_and_renamed_files_answer_no_more(folder: Folder) -> None:
    folder.write(
        {
            "old.md": "---\ntitle: Old prices\ncategory: past\n---\nThe old price is ten.\n",
            "new.md": "# New prices\nThe new price is twelve.\n",
        }
    )
    folder.ask()
    (folder.docs / "old.md").unlink()
    (folder.docs / "new.md").rename(folder.docs / "current.md")

    for query in ("old prices", "new prices", "past", "current"):
        result = folder.ask(query)
        assert sections(result) == [("current.md", "The new price is twelve.")]
        hints = result.retrieval_trace.hints
        assert set(hints.titles) <= {"New prices"}
        assert hints.categories == ()
        assert [attempt.filter for attempt in result.retrieval_trace.attempts] == [None]


@pytest.mark.parametrize(
    "moved",
    ["z.md", "deep/er/a.md", "A.md", "a.markdown", ".a.md", ".git/a.md", "a.md.bak", "a.txt"],
)
def test_a_moved_file_is_found_where_it_is_or_not_at_all(folder: Folder, moved: str) -> None:
    folder.write({"a.md": "# Prices\nThe price is ten.\n", "b.md": "# B\nUnrelated.\n"})
    folder.ask()
    (folder.docs / moved).parent.mkdir(parents=True, exist_ok=True)
    (folder.docs / "a.md").rename(folder.docs / moved)
    read = moved in {"z.md", "deep/er/a.md", "A.md", "a.markdown"}

    result = folder.ask("prices")

    found = [source for source, text in sections(result) if "ten" in text]
    assert found == ([moved] if read else [])
    assert result.retrieval_trace.hints.titles == (("Prices",) if read else ())


@pytest.mark.parametrize("documents", [[], [Document("Other.", metadata={"source": "b"})]])
def test_documents_replace_what_was_in_the_folder(
    documents: list[Document], tmp_path: Path
) -> None:
    for texts in ([Document("First.", metadata={"source": "a"})], documents):
        KnowledgeBase.from_documents(texts, into=tmp_path, embedder=HashEmbedder()).close()

    with KnowledgeBase.open(tmp_path, embedder=HashEmbedder()) as knowledge:
        found = sections(look_up_everything(knowledge, "first other"))
    assert found == [("b", "Other.")] * len(documents)


# Files that are code


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.marker,))


@pytest.mark.parametrize("names", [["index.pkl"], ["index.pkl", "index.faiss", "docstore.pickle"]])
def test_a_17_a_folder_with_a_pickle_is_refused_without_running_it(
    tmp_path: Path, names: list[str]
) -> None:
    marker, shared = tmp_path / "pwned.marker", tmp_path / "shared"
    shared.mkdir()
    for name in names:
        (shared / name).write_bytes(pickle.dumps(Payload(marker)))

    with pytest.raises(KnowledgeNotFoundError, match="build one with `lookup-tool ingest"):
        KnowledgeBase.open(shared)

    assert not marker.exists()


def test_a_pickle_beside_a_knowledge_base_is_not_even_read(folder: Folder, tmp_path: Path) -> None:
    folder.write(THREE)
    folder.build().close()
    marker = tmp_path / "pwned.marker"
    for place in (folder.kb, *folder.kb.glob("generation-*"), *folder.kb.glob("*/lexical")):
        (place / "index.pkl").write_bytes(pickle.dumps(Payload(marker)))

    with KnowledgeBase.open(folder.kb, embedder=HashEmbedder()) as knowledge:
        assert look_up_everything(knowledge, "price").found is True
    assert not marker.exists()


NPY = b"\x93NUMPY\x01\x00v\x00"
OBJECT_HEADER = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"


@pytest.mark.parametrize("kind", ["pickle", "object-array"])
@pytest.mark.parametrize("size", ["its-own-size", "the-recorded-size"])
def test_a_stored_file_that_becomes_a_pickle_is_refused_without_running_it(
    folder: Folder, tmp_path: Path, kind: str, size: str
) -> None:
    folder.write({f"{n}.md": f"Word {n} and more words. " * 20 for n in range(20)})
    folder.build().close()
    marker = tmp_path / "pwned.marker"
    header = NPY + OBJECT_HEADER.ljust(117) + b"\n" if kind == "object-array" else b""
    code = header + pickle.dumps(Payload(marker))
    stored = [path for path in folder.kb.rglob("*") if path.is_file() and path.name != ".lock"]
    for path in stored:
        before = path.read_bytes()
        path.write_bytes(code if size == "its-own-size" else code.ljust(len(before), b"\0"))
        with pytest.raises(KnowledgeDamagedError, match="build it again with `lookup-tool ingest`"):
            KnowledgeBase.open(folder.kb, embedder=HashEmbedder())
        path.write_bytes(before)

    assert not marker.exists()
    assert {"CURRENT", "manifest.json", "vectors.npy"} <= {path.name for path in stored}


# Readers and a writer


def growing(number: int) -> dict[str, str]:
    return {f"{n}.md": f"# Entry {n}\nThe code of entry {n} is c{n}.\n" for n in range(number)}


def test_a_19_readers_are_undisturbed_by_a_writer(folder: Folder) -> None:
    folder.write(growing(3))
    folder.build().close()
    expected = {f"{n}.md": f"The code of entry {n} is c{n}." for n in range(20)}
    done: list[int] = []

    def write() -> None:
        try:
            for number in range(4, 20):
                folder.write(growing(number))
                folder.build().close()
        finally:
            done.append(1)

    def read(_: int) -> int:
        calls = 0
        while not done or not calls:
            with (
                KnowledgeBase.open(folder.kb, embedder=HashEmbedder()) as knowledge,
                closing(TraceStore("sqlite://")) as traces,
            ):
                tool = create_lookup_tool(knowledge, config=EVERYTHING, traces=traces)
                sent: Any = {"name": tool.name, "args": {"query": "code of entry"}, "id": "1"}
                artifact = tool.invoke({**sent, "type": "tool_call"}).artifact
                assert artifact["evidenceStatus"] != "unavailable"
                for block in artifact["evidenceBlocks"]:
                    assert expected[block["source"]] == block["content"]
                assert artifact["retrievalTrace"]["candidateCount"] == knowledge.count()
                calls += 1
        return calls

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read, number) for number in range(4)]
        pool.submit(write).result()
        assert all(reader.result() for reader in readers)

    with KnowledgeBase.open(folder.kb, embedder=HashEmbedder()) as knowledge:
        assert (knowledge.count(), knowledge.manifest.entries) == (19, 19)


def test_a_reader_keeps_its_generation_after_many_builds(folder: Folder) -> None:
    folder.write(growing(2))
    with folder.build() as knowledge:
        before = sections(look_up_everything(knowledge, "code of entry"))
        for number in range(3, 8):
            folder.write(growing(number))
            folder.build().close()
        with ThreadPoolExecutor(1) as pool:
            after = sections(pool.submit(look_up_everything, knowledge, "code of entry").result())
        assert knowledge.read("0.md").passages[0].text == "The code of entry 0 is c0."

    assert [source for source, _ in before] == ["0.md", "1.md"]
    assert after == before


def test_a_failed_build_leaves_the_readers_and_the_index_as_they_were(folder: Folder) -> None:
    class Failing(HashEmbedder):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise ConnectionError

    folder.write(growing(2))
    before = comparable(folder.ask())
    folder.write(growing(5))

    with pytest.raises((LookupToolError, ConnectionError)):
        KnowledgeBase.build(folder.docs, folder.kb, embedder=Failing())

    with KnowledgeBase.open(folder.kb, embedder=HashEmbedder()) as knowledge:
        assert comparable(look_up_everything(knowledge, "anything at all")) == before
        json.dumps(look_up_everything(knowledge, "entry").model_dump(mode="json"), allow_nan=False)
