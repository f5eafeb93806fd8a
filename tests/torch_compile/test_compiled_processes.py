"""Threads, processes and memory."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

import psutil  # noqa: E402 -- torch comes first
from torch_compiled import Network, assert_near, compiled, functions, in_double, normal, seeded  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")
SUPPORT = Path(__file__).parents[1] / "support"


def in_threads(count, work):
    """Runs `work(number)` in threads that begin together; raises what one of them has raised."""
    problems = []
    ready = threading.Barrier(count)

    def one(number):
        try:
            ready.wait()
            work(number)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


@pytest.mark.parametrize("warm", [True, False])
def test_threads_call_one_model(warm):
    module = seeded(Network).eval()
    run = compiled(module)
    images = [normal(2, 3, 8, 8, seed=seed) for seed in range(4)]
    expected = [in_double(module, x)[0](x.double()) for x in images]
    if warm:
        with torch.no_grad():
            run(images[0])

    def work(number):
        with torch.no_grad():
            for _ in range(20):
                assert_near(run(images[number]), expected[number])

    in_threads(4, work)


def test_threads_train_models_of_their_own():
    def step(module, run, x):
        run(x).square().mean().backward()
        return [one.grad for one in module.parameters()]

    modules = [seeded(Network) for _ in range(3)]
    images = [normal(2, 3, 8, 8, seed=seed) for seed in range(3)]
    exact = [in_double(module, x) for module, x in zip(modules, images, strict=True)]
    expected = [step(module, module, x) for module, x in exact]
    runs = [compiled(module) for module in modules]

    def work(number):
        made = step(modules[number], runs[number], images[number])
        for a, b in zip(made, expected[number], strict=True):
            assert (a.double() - b).norm() <= 1e-5 * b.norm() + 1e-7

    in_threads(3, work)


def test_weights_change_while_threads_call():
    """Each result is of the weights before or after a change, of nothing in between: a change waits for the calls."""
    module = seeded(lambda: nn.Linear(32, 32, bias=False)).eval()
    run = compiled(module)
    x = torch.ones(1, 32)
    nn.init.zeros_(module.weight)
    lock = threading.Lock()

    def work(number):
        with torch.no_grad():
            for step in range(50):
                with lock:
                    if number == 0:
                        module.weight.fill_(step)
                    value = module.weight[0, 0].item()
                    assert torch.equal(run(x), torch.full((1, 32), 32 * value))

    in_threads(3, work)


def test_a_backward_pass_in_another_thread():
    module = seeded(Network)
    expected, x = in_double(module, normal(2, 3, 8, 8))
    loss = compiled(module)(x.float()).square().mean()
    in_threads(1, lambda _: loss.backward())
    expected(x).square().mean().backward()
    assert_near(module.last.weight.grad, expected.last.weight.grad)


RANK = """
import os, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_compiled import Network, assert_near, compiled, in_double, normal, seeded
rank, inside = int(sys.argv[2]), sys.argv[4] == "inside"
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{sys.argv[3]}", rank=rank, world_size=2)
module = seeded(Network)
module.norm = torch.nn.GroupNorm(2, 8)
expected, x = in_double(module, normal(4, 3, 8, 8))
run = DistributedDataParallel(compiled(module)) if inside else compiled(DistributedDataParallel(module))
optimizer = torch.optim.SGD(module.parameters(), 0.1)
other = torch.optim.SGD(expected.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    other.zero_grad()
    run(x[2 * rank : 2 * rank + 2].float()).square().mean().backward()
    expected(x).square().mean().backward()
    optimizer.step()
    other.step()
for made, exact in zip(module.parameters(), expected.parameters(), strict=True):
    assert_near(made, exact)
dist.destroy_process_group()
print("well")
"""


@pytest.mark.parametrize("order", ["inside", "outside"])
def test_two_processes_share_a_step(order):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(SUPPORT), str(rank), str(port), order],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        for rank in ranks:
            out, problems = rank.communicate(timeout=100)
            assert rank.returncode == 0, problems[-3000:]
            assert out.strip().endswith("well")
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_goes_on_with_what_was_compiled():
    module = seeded(Network).eval()
    run = compiled(module)
    x = normal(2, 3, 8, 8)
    with torch.no_grad():
        expected = run(x)
        child = os.fork()
        if child == 0:  # pragma: no cover -- another process
            ended = 1
            try:
                ended = 0 if torch.equal(run(x), expected) else 2
            finally:
                os._exit(ended)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_memory_does_not_grow():
    module = seeded(lambda: Network(channels=16))
    run = compiled(module)
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    x = normal(8, 3, 32, 32)
    process = psutil.Process()

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()
        return process.memory_info().rss

    before = steps(20)
    activations = 8 * 16 * 32 * 32 * 4
    assert steps(50) - before < 20 * activations  # each step that kept one of them would add 50


def test_memory_of_inference_does_not_grow():
    module = seeded(lambda: nn.Linear(512, 512)).eval()
    run = compiled(module)
    process = psutil.Process()

    def calls(count):
        with torch.no_grad():
            for _ in range(count):
                run(normal(4, 512))
                module.weight.data = module.weight.data.clone()
        return process.memory_info().rss

    before = calls(20)
    assert calls(50) - before < 20 * module.weight.nbytes


def test_programs_are_freed():
    module = seeded(Network)
    run = compiled(module)
    run(normal(2, 3, 8, 8)).sum().backward()
    assert len(functions(module)) == 2
    torch._dynamo.reset()
    assert functions(module) == []
    run(normal(2, 3, 8, 8)).sum().backward()
    assert len(functions(module)) == 2


def test_activations_are_freed_by_the_backward_pass():
    module = seeded(Network)
    loss = compiled(module)(normal(2, 3, 8, 8)).square().mean()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time|already been freed"):
        loss.backward()
