"""The vector scan alone, beside faiss: time and recall, with and without a category."""

from typing import Any

import faiss
import numpy as np

from corpora import Question
from lookup_tool.engines.local.segments import Where
from lookup_tool.knowledge_base import KnowledgeBase
from timing import alternate

K = 50


def measure(
    knowledge: KnowledgeBase, everything: list[Question], filtered: list[Question]
) -> dict[str, Any]:
    """Compare searches of a knowledge base with faiss on the same vectors, one thread each."""
    faiss.omp_set_num_threads(1)
    snapshot = knowledge.view().snapshot
    vectors = np.array(snapshot.unit_vectors)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)

    def ours(question: Question) -> Any:
        return snapshot.vectors.search(question.vector, K, Where(category=question.category))[0]

    def exact(question: Question) -> Any:
        (part,) = snapshot.segments.slices(Where(category=question.category))
        found = faiss.knn(
            question.vector[None], vectors[part], K, metric=faiss.METRIC_INNER_PRODUCT
        )
        return found[1][0] + part.start

    whole = alternate(
        {"lookup-tool": ours, "IndexFlatIP": lambda q: flat.search(q.vector[None], K)}, everything
    )
    part = alternate({"lookup-tool": ours, "faiss.knn of the rows": exact}, filtered)
    return {
        "everything_ms": whole,
        "everything_ratio": round(whole["lookup-tool"] / whole["IndexFlatIP"], 3),
        "everything_recall": _recall(ours, exact, everything),
        "category_ms": part,
        "category_ratio": round(part["lookup-tool"] / part["faiss.knn of the rows"], 3),
        "category_recall": _recall(ours, exact, filtered),
    }


def _recall(found: Any, exact: Any, questions: list[Question]) -> float:
    """Return the share of the exact rows that were found."""
    shares = [len(np.intersect1d(found(q), exact(q))) / len(exact(q)) for q in questions]
    return round(float(np.mean(shares)), 4)
