"""The figures as Markdown: one table a question, the alternative beside each."""

from collections.abc import Iterator, Mapping
from typing import Any


def markdown(found: Mapping[str, Any]) -> str:
    """Write the report."""
    return "\n".join(_lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    machine = found["machine"]
    where = f"{machine['cpus']} CPUs ({machine['processor']}), load {machine['load']}"
    yield f"Medians of processor time on {where}.\n"
    yield "| top 50 of | ours, ms | IndexFlatIP, ms | ratio | recall | category: ours, ms | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for size, each in found["sizes"].items():
        scan = each["scan"]
        whole, part = scan["everything_ms"], scan["category_ms"]
        yield (
            f"| {int(size):,} x {each['dimension']} | {whole['lookup-tool']} "
            f"| {whole['IndexFlatIP']} | {scan['everything_ratio']} | {scan['everything_recall']} "
            f"| {part['lookup-tool']} | {scan['category_ratio']} |"
        )
    for size, each in found["sizes"].items():
        lookup = each["lookup"]
        yield f"\n**Whole lookup, {int(size):,} passages** (embedding excluded), ms\n"
        yield "| | everything | one category of 20 |"
        yield "|---|---|---|"
        for name, ms in lookup["everything_ms"].items():
            yield f"| {name} | {ms} | {lookup['category_ms'].get(name, '')} |"
        for name in lookup["category_ms"].keys() - lookup["everything_ms"].keys():
            yield f"| {name} | | {lookup['category_ms'][name]} |"
        yield ""
        yield from (f"- {note}" for note in lookup["notes"])
        yield f"- stages, ms: {_listed(lookup['stages_ms'])}"
        yield f"- threads: {_listed(lookup['throughput'])}"
        if "peer_throughput" in lookup:
            for name in ("peer_throughput", "peer_throughput_as_shipped"):
                openmp = ", faiss as shipped" if name.endswith("shipped") else ""
                yield f"- threads, create_retriever_tool k=20{openmp}: {_listed(lookup[name])}"
        yield f"- awaited over called: {lookup['async_ratio']}"
        yield f"- a fresh process: {_listed(each['process'])}"
    yield f"\n**Start**: {_listed(found['start_up'])}"
    yield f"\n**First answer of a process, 10,000 passages**: {_listed(found['cold'])}"
    yield f"\n**Ingest**: {_listed(found['ingest'])}\n"


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_listed(value) if isinstance(value, Mapping) else value}"
        for name, value in values.items()
    )
