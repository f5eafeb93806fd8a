"""What is put into a cache lies in it at once, as in eager torch."""

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from torch_compiled import assert_near, compiled, functions, seeded  # noqa: E402 -- torch comes first


class Cache(torch.nn.Module):
    """Keeps what its layer makes, and attends to all that was kept.

    Args:
        how: it is put in: by `index_copy_`, or by indices.
        before: whether what was there before is read too.
    """

    def __init__(self, how="index_copy_", before=False):
        super().__init__()
        self.how, self.before = how, before
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("kept", torch.zeros(2, 12, 8))

    def forward(self, x, places):
        was = self.kept.sum() if self.before else 0
        if self.how == "index_copy_":
            self.kept.index_copy_(1, places, self.layer(x))
        elif self.how == "accumulating":
            self.kept.index_put_((torch.tensor([0, 1])[:, None], places), self.layer(x), accumulate=True)
        else:
            self.kept[:, places] = self.layer(x)
        return self.layer(self.kept).softmax(-1) + was


def kinds(module):
    programs = [program for one in functions(module) for program in one.programs.values()]
    return [step.name for p in programs for step in p.steps]


@pytest.mark.parametrize("how", ["index_copy_", "indices", "accumulating"])
@pytest.mark.parametrize("before", [False, True], ids=["", "what was there before is read"])
def test_a_cache_is_as_in_eager_torch(how, before):
    ours, eagers = seeded(lambda: Cache(how, before)), seeded(lambda: Cache(how, before))
    run = compiled(ours)
    memory = ours.kept.data_ptr()
    with torch.no_grad():
        for place in range(0, 12, 3):
            x, places = torch.randn(2, 2, 8), torch.tensor([place, place + 1])
            assert_near(run(x, places), eagers(x, places), 1e-6)
            assert_near(ours.kept, eagers.kept, 1e-6)
    assert ours.kept.data_ptr() == memory


@pytest.mark.parametrize("how", ["index_copy_", "indices"])
def test_nothing_copies_a_cache(how):
    module = seeded(lambda: Cache(how))
    with torch.no_grad():
        compiled(module)(torch.randn(2, 2, 8), torch.tensor([3, 4]))
    assert "aten.copy_.default" not in kinds(module)


@pytest.mark.parametrize("how", ["index_copy_", "indices"])
def test_what_was_there_before_is_copied_where_it_is_read(how):
    module = seeded(lambda: Cache(how, before=True))
    with torch.no_grad():
        compiled(module)(torch.randn(2, 2, 8), torch.tensor([3, 4]))
    assert "aten.copy_.default" in kinds(module)
