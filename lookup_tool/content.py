"""What the model sees of a result, as text or as search results that it can cite.

To add a form, add its name to `ContentFormat` and its branch to `content_of`.
"""

from typing import Any, Literal

from lookup_tool.contracts import LookupResult
from lookup_tool.stages.pack import CUT, contents

ContentFormat = Literal["text", "search_result"]
Content = str | list[str | dict[str, Any]]


def content_of(result: LookupResult, content_format: ContentFormat = "text") -> Content:
    """Return a status line and the packed evidence, or the message alone.

    As `search_result`, the evidence comes as one content block for each source, in the form that
    Anthropic's models cite; what is included and where it is cut is the same.
    """
    if not result.context_pack.included:
        return result.message
    missing = result.completeness_hint.missing_terms
    note = f" Not mentioned in the evidence: {', '.join(missing)}." if missing else ""
    status = f"{result.message}{note}"
    if content_format == "text":
        return f"{status}\n\n{result.context_pack.text}"
    return [{"type": "text", "text": status}, *_search_results(result)]


def _search_results(result: LookupResult) -> list[dict[str, Any]]:
    blocks = {block.source: block for block in result.evidence_blocks}
    pack = result.context_pack
    return [
        {
            "type": "search_result",
            "source": part.source,
            "title": " > ".join(blocks[part.source].breadcrumb) or part.source,
            "content": [
                {
                    "type": "text",
                    # Only packed text needs its tags escaped; a cut one is known only as packed.
                    "text": shown + CUT if part.truncated else blocks[part.source].content,
                }
            ],
            "citations": {"enabled": True},
        }
        for part, shown in zip(pack.included, contents(pack.text), strict=True)
    ]
