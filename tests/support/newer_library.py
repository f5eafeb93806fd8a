"""Tests of what only a newer oneDNN has: `@pytest.mark.library("3.13")` runs them with that version or a later one."""

from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.ops.errors import LibraryError

HOW = (
    "`conda install -c conda-forge 'onednn=*=*omp*'` has a newer one, then "
    "ONEDNN_GRAPH_LIBRARY=$CONDA_PREFIX/lib/libdnnl.so.3 pytest …"
)


def lacking(version):
    """One line on why a test that needs a version can't run with the library that is loaded, or None."""
    wanted = tuple(map(int, version.split(".")))
    try:
        loaded = load().version
    except LibraryError as error:
        return f"needs oneDNN {version}, and none can be loaded ({error}); {HOW}"
    if loaded[: len(wanted)] >= wanted:
        return None
    return f"needs oneDNN {version}, and {'.'.join(map(str, loaded))} is loaded; {HOW}"
