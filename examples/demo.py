"""Build the handbook's knowledge base and ask it three questions; run it with `make demo`."""

import sys
from pathlib import Path

from lookup_tool.cli import main

HANDBOOK = Path(__file__).parent / "handbook"
QUESTIONS = {
    "a plain question": "How many days of annual leave do I get?",
    "only entries of `it` carry the keyword `badge`, and the answer is in `facilities`": (
        "I lost my badge, what must I do and what does a replacement cost?"
    ),
    "nothing in the handbook answers this": "May I bring my dog to the office?",
}


def run(*arguments: str) -> None:
    """Show a command and run it."""
    shown = " ".join(f'"{part}"' if " " in part else part for part in arguments)
    print(f"\n$ lookup-tool {shown}", flush=True)
    try:
        main(list(arguments))
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    knowledge = sys.argv[1] if len(sys.argv) > 1 else ".demo/handbook"
    run("ingest", str(HANDBOOK), "--into", knowledge)
    for why, question in QUESTIONS.items():
        print(f"\n# {why}", end="")
        run("ask", question, "--kb", knowledge)
