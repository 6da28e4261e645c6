"""From nothing to a first answer: a process that imports, opens, answers and ends.

Both sides have the same passages and embedder (wordllama), and have LangGraph imported, as an agent
has. What is timed is the whole process, with the start of Python.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter

from langchain_core.documents import Document

from corpora import Words
from lookup_tool.embedders.wordllama import WordLlamaEmbeddings
from lookup_tool.knowledge_base import KnowledgeBase

PASSAGES = 10_000
ROUNDS = 7

_OURS = """
import sys
from langgraph.graph import StateGraph
from lookup_tool import KnowledgeBase, create_lookup_tool
tool = create_lookup_tool(KnowledgeBase.open(sys.argv[1]), traces="sqlite://")
tool.invoke({"query": sys.argv[2]})
"""

_THEIRS = """
import sys
from pathlib import Path
import wordllama
from langchain_community.vectorstores import FAISS
from langchain_core.embeddings import Embeddings
from langchain_core.tools import create_retriever_tool
from langgraph.graph import StateGraph

class Model(Embeddings):
    def __init__(self):
        folder = Path(wordllama.__file__).parent
        self.model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    def embed_documents(self, texts):
        return self.model.embed(texts).tolist()
    def embed_query(self, text):
        return self.model.embed([text])[0].tolist()

store = FAISS.load_local(sys.argv[1], Model(), allow_dangerous_deserialization=True)
tool = create_retriever_tool(store.as_retriever(search_kwargs={"k": 20}), "search", "Search.")
tool.invoke({"query": sys.argv[2]})
"""


def measure(folder: Path) -> dict[str, float]:
    """Return median seconds of a first answer over 10,000 passages, and the ratio to the peer's."""
    words = Words(5)
    texts = [" ".join(words.draw(40)) for _ in range(PASSAGES)]
    documents = [
        Document(text, metadata={"source": f"{number}.md", "title": f"Entry {number}"})
        for number, text in enumerate(texts)
    ]
    KnowledgeBase.from_documents(documents, into=folder / "kb").close()
    commands = {"lookup-tool": [_OURS, str(folder / "kb")]}
    if find_spec("langchain_community"):  # else the report is without the ratio
        from langchain_community.vectorstores import FAISS  # pyright: ignore[reportMissingImports]

        FAISS.from_documents(documents, WordLlamaEmbeddings()).save_local(str(folder / "faiss"))
        commands["FAISS"] = [_THEIRS, str(folder / "faiss")]
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(ROUNDS + 1):
        for name, command in commands.items():
            started = perf_counter()
            process = [sys.executable, "-c", *command, texts[7][:60]]
            subprocess.run(process, check=True, capture_output=True)
            if number:  # the first one reads the libraries from disk
                times[name].append(perf_counter() - started)
    found = {f"{name}_s": round(median(those), 2) for name, those in times.items()}
    if "FAISS" in times:
        ratio = median(times["lookup-tool"]) / median(times["FAISS"])
        found["ratio"] = round(ratio, 2)
    return found
