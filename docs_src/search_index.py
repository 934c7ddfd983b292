import tempfile
from pathlib import Path

from agentfly.environments.search import RemoteRetriever, SearchIndex, retrieval_server

with tempfile.TemporaryDirectory() as folder:
    notes = Path(folder) / "notes"
    notes.mkdir()
    (notes / "cats.md").write_text("# Cats\n\nCats purr and sleep all day.")
    (notes / "dogs.txt").write_text("Dogs bark at night.")

    # As `agentfly search index notes --to index` does.
    index = SearchIndex.create(Path(folder) / "index", [notes])
    hit = index.retriever("bm25").search("Who barks?", 3)[0]
    assert (hit.passage.id, hit.passage.text) == ("dogs.txt", "Dogs bark at night.")

    # As `agentfly search serve index` does, for clients of Search-R1's server.
    with retrieval_server(index.retriever("bm25")) as url:
        remote = RemoteRetriever(url)
        assert remote.search("sleeping", 3) == index.retriever("bm25").search("sleeping", 3)
        remote.close()
