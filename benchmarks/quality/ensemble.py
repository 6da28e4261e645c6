"""LangChain's EnsembleRetriever over the same lists: is it reciprocal rank fusion?"""

from collections.abc import Sequence
from importlib.util import find_spec

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from lookup_tool import KnowledgeBase
from lookup_tool.evaluation.peers import FUSED, RRF_CONSTANT, rank_passages
from lookup_tool.evaluation.questions import Question
from lookup_tool.schema import StoredPassage

PACKAGE = "langchain_classic"


class Given(BaseRetriever):
    """Returns documents that were found before."""

    documents: list[Document]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.documents


def is_installed() -> bool:
    """Tell whether the retriever's package is there."""
    return find_spec(PACKAGE) is not None


def count_same(knowledge: KnowledgeBase, questions: Sequence[Question]) -> int:
    """Count the questions for which it ranks as our fusion does, but for the order of ties."""
    from langchain_classic.retrievers import (  # pyright: ignore[reportMissingImports] - optional
        EnsembleRetriever,
    )

    same = 0
    for question in questions:
        ranks = rank_passages(knowledge, question.query)
        lists = [ranks["bm25"][:FUSED], ranks["dense"][:FUSED]]
        retriever = EnsembleRetriever(
            retrievers=[Given(documents=[_document(p) for p in ranked]) for ranked in lists],
            weights=[0.5, 0.5],
            c=RRF_CONSTANT,
            id_key="row",
        )
        theirs = [document.metadata["row"] for document in retriever.invoke(question.query)]
        same += _scores(lists, theirs) == _scores(lists, [p.row for p in ranks["rrf"]])
    return same


def _document(passage: StoredPassage) -> Document:
    return Document(passage.text, metadata={"row": passage.row})


def _scores(lists: Sequence[Sequence[StoredPassage]], order: Sequence[int]) -> list[float]:
    """Return the fused score of each row, in this order."""
    scores = dict.fromkeys(order, 0.0)
    for ranked in lists:
        for rank, passage in enumerate(ranked, start=1):
            scores[passage.row] += 1 / (RRF_CONSTANT + rank)
    return [round(scores[row], 12) for row in order]
