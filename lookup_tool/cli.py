"""The command line: build a knowledge base, ask it, and look at what happened.

Results go to standard output, everything else to standard error. An error is one line that names
the thing and the remedy, and a non-zero exit; `--debug` shows the traceback.
"""

import logging
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from lookup_tool.commands.bench import bench
from lookup_tool.commands.calibrate import calibrate
from lookup_tool.commands.console import (
    PHASES,
    AsJson,
    DefaultAccess,
    Groups,
    KnowledgePath,
    LogFormatter,
    TracesUrl,
    add_row,
    bars,
    err,
    out,
    print_json,
    print_problems,
    use_any_encoding,
)
from lookup_tool.commands.evaluate import METRICS_HELP, evaluate
from lookup_tool.commands.sync import check, sync
from lookup_tool.commands.traces import trace_app
from lookup_tool.config import LookupConfig, LookupContext, as_groups
from lookup_tool.contracts import LookupResult, RetrievalTrace
from lookup_tool.documents.prepared import access_by_default
from lookup_tool.embedders.embedder import DEFAULT
from lookup_tool.errors import ConfigurationError, LookupToolError
from lookup_tool.graph.app import build_lookup_graph, open_traces
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import Access
from lookup_tool.server import mcp
from lookup_tool.traces import TraceStore

app = typer.Typer(
    help="Answers from your documents with evidence, or says plainly that there is none.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(sync)
app.command()(check)
app.command("eval", epilog=METRICS_HELP)(evaluate)
app.command()(calibrate)
app.command()(bench)
app.add_typer(trace_app, name="trace")
app.command()(mcp)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("lookup-tool"))
        raise typer.Exit


@app.callback()
def _options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and logs.")] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Answers from your documents with evidence, or says plainly that there is none."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.DEBUG if debug else logging.CRITICAL, handlers=[handler])


@app.command()
def ingest(
    docs: Annotated[Path, typer.Argument(help="Folder with markdown files.")],
    into: Annotated[Path, typer.Option("--into", help="Folder of the knowledge base.")],
    embedder: Annotated[
        str,
        typer.Option(help="`wordllama`, `huggingface:MODEL`, or `provider:MODEL` of LangChain."),
    ] = DEFAULT,
    default_access: DefaultAccess = None,
) -> None:
    """Build a knowledge base from a folder of markdown files.

    An existing one is replaced by one atomic switch; nothing is taken from it, which `sync` does,
    not even its default access.
    Files with problems are listed with the remedy; they never stop the others.

    Example: `lookup-tool ingest examples/handbook --into kb`
    """
    with (
        bars(PHASES) as step,
        KnowledgeBase.build(
            docs, into, embedder=embedder, default_access=default_access, progress=step
        ) as knowledge,
    ):
        report, manifest = knowledge.report, knowledge.manifest
    print_problems(report)
    out.say(
        f"{report.entries} entries, {manifest.passages} passages and {len(manifest.categories)} "
        f"categories in {into} (version {knowledge.version})"
    )
    if not report.entries:
        err.say(f"note: {docs} holds no .md, .markdown or .mdx files", "yellow")


@app.command()
def ask(  # noqa: PLR0913 - the options of one command
    query: Annotated[str, typer.Argument(help="The question, in plain words.")],
    kb: KnowledgePath,
    group: Groups = None,
    traces: TracesUrl = None,
    blocks: Annotated[int, typer.Option(min=0, help="Most evidence blocks to print.")] = 3,
    *,
    as_json: AsJson = False,
) -> None:
    """Look something up, and show the evidence and how it was found.

    Example: `lookup-tool ask "How many days of annual leave do I get?" --kb kb`
    """
    with KnowledgeBase.open(kb) as knowledge:
        store = open_traces(knowledge, traces)
        graph = build_lookup_graph(knowledge, traces=store)
        context = LookupContext(groups=tuple(as_groups(group)))
        result: LookupResult = graph.invoke({"query": query}, context=context)["result"]
        if as_json:
            print_json(result.model_dump(mode="json"))
        else:
            _print_result(result, blocks)
        store.close()
    _print_recorded(result.retrieval_trace, store, quiet=as_json)
    if result.evidence_status == "unavailable":
        error = result.retrieval_trace.error
        raise ConfigurationError(f"the lookup failed ({error}); run it again with --debug")


@app.command()
def info(
    kb: Annotated[Path, typer.Argument(envvar="LOOKUP_KB", help="Folder of the knowledge base.")],
) -> None:
    """Show what a knowledge base holds, restricted entries included: it is for its operator."""
    with KnowledgeBase.open(kb) as knowledge:
        manifest = knowledge.manifest
    table = Table(show_header=False, box=None)
    restricted = [s for s in manifest.segments if s.access is not None]
    counts = dict.fromkeys(manifest.categories, 0)
    spelled = {name.casefold(): name for name in manifest.categories}
    for segment in manifest.segments:
        name = spelled.get((segment.category or "").casefold())
        if name is not None:
            counts[name] += segment.stop - segment.start
    thresholds = manifest.thresholds
    for label, value in {
        "entries": manifest.entries,
        "passages": manifest.passages,
        "of these restricted": sum(s.stop - s.start for s in restricted),
        "access groups": ", ".join(sorted({g for s in restricted for g in s.access or ()})),
        "entries without access": _readers(access_by_default(manifest.passage_settings)),
        "categories": ", ".join(f"{name} ({count})" for name, count in counts.items()),
        "embedder": f"{manifest.embedder.name}, {manifest.embedder.dimension} dimensions",
        "reference threshold": thresholds.reference_threshold,
        "evidence floor": thresholds.evidence_floor,
        "thresholds from": "the embedder; see `lookup-tool calibrate`"
        if manifest.calibrated_at is None
        else f"these documents, calibrated {manifest.calibrated_at}",
        "version": knowledge.version,
        "built": manifest.created_at,
    }.items():
        add_row(table, label, str(value))
    out.print(table)


@app.command()
def show(
    source: Annotated[str, typer.Argument(help="Source of an entry, or of one of its sections.")],
    kb: KnowledgePath,
    group: Groups = None,
) -> None:
    """Print an entry, or one section of it, as it was indexed.

    Example: `lookup-tool show hr/annual-leave.md --kb kb`
    """
    with KnowledgeBase.open(kb) as knowledge:
        entry = knowledge.read(source, as_groups(group))
    out.say(entry.title, "bold")
    out.say(f"{entry.source}  category: {entry.category or 'none'}", "dim")
    heading: tuple[str, ...] = ()
    for passage in entry.passages:
        if passage.breadcrumb != heading:
            heading = passage.breadcrumb
            out.print()
            out.say(f"{' > '.join(heading)}  ({passage.source})", "cyan")
        out.print(Text(passage.text))


@app.command()
def graph() -> None:
    """Print the state machine as a Mermaid diagram."""
    with KnowledgeBase.from_documents([]) as knowledge:
        typer.echo(build_lookup_graph(knowledge).get_graph().draw_mermaid())


def _readers(access: Access) -> str:
    return "everybody" if access is None else ", ".join(sorted(access)) or "nobody"


def _print_result(result: LookupResult, blocks: int) -> None:
    """Print a result for a reader: what was found, then how."""
    color = {"sufficient": "green", "weak": "yellow", "unavailable": "red"}.get(
        result.evidence_status, "magenta"
    )
    level = f", relevance {result.relevance_level}" if result.found else ""
    out.say(f"{result.evidence_status}{level}: {result.message}", f"bold {color}")
    for block in result.evidence_blocks[:blocks]:
        place = f"{block.source}, lines {block.lines.start}-{block.lines.end}"
        out.print()
        out.say(f"[{block.rank}] {' > '.join(block.breadcrumb)}", "bold")
        numbers = f"score {block.score:.2f}, similarity {block.similarity:.2f}"
        out.say(f"    {place}: {numbers}", "dim")
        out.say(f"    {', '.join(block.hit_reasons)}", "dim")
        out.print(Text(block.content))
    out.print()
    if blocks < len(result.evidence_blocks):
        more = len(result.evidence_blocks) - blocks
        out.say(f"and {more} more; show them with --blocks {len(result.evidence_blocks)}")
    for line in _history(result):
        out.say(line)


def _print_recorded(trace: RetrievalTrace, store: TraceStore, *, quiet: bool) -> None:
    """Say where the trace row is, or why there is none; `quiet`, the latter alone."""
    if trace.record_error or store.lost:
        why = trace.record_error or "it was locked for as long as this command could wait"
        err.say(f"not recorded in {store.url}: {why}; --debug tells more", "red")
    elif not quiet:
        out.say(f"trace: row {trace.invocation_id} in {store.url}")


def _history(result: LookupResult) -> Iterator[str]:
    """Say how the evidence was looked for, a line each."""
    trace = result.retrieval_trace
    if trace.query_cut:
        yield f"the query was cut: {trace.query_length} characters are more than are read"
    for attempt in trace.attempts:
        top = "none" if attempt.top_similarity is None else f"{attempt.top_similarity:.2f}"
        where = "everything" if attempt.filter is None else f"category {attempt.filter['category']}"
        yield (
            f"searched {where} ({attempt.reason}): best similarity {top}, reference threshold "
            f"{attempt.reference_threshold:.2f}, {attempt.outcome}"
        )
    if trace.fallback_reason:
        yield f"filter dropped: {trace.fallback_reason}"
    if trace.answerability is not None:
        least = LookupConfig().evidence.minimum_answerability
        yield f"answerability: {trace.answerability:.2f}, usable from {least:.2f}"
    if result.context_pack.summary:
        pack = result.context_pack
        yield f"packed for an agent: {pack.summary} ({pack.used} of {pack.budget} {pack.unit})"
    if result.completeness_hint.missing_terms:
        yield f"not mentioned: {', '.join(result.completeness_hint.missing_terms)}"
    stages = [timing.stage for timing in trace.timings if timing.stage != "framework"]
    yield f"path: {' -> '.join(stages)}"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    given = sys.argv[1:] if arguments is None else arguments
    use_any_encoding()
    try:
        app(args=given, prog_name="lookup-tool")
    except LookupToolError as error:
        if "--debug" in given:
            raise
        err.say(f"error: {error}", "red")
        sys.exit(1)
