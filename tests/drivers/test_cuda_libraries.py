"""Kernels that NVIDIA's libraries compute for the CUDA driver, on stubs of these libraries that refuse what the
libraries refuse.

The stubs check descriptors, alignment and workspace, and count what they are asked.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.conform_command import Cli, conform_command
from support.cuda import CUBLASLT, CUDNN, cuda_driver

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]

START = f"""
import ctypes
import torch, torch_mydev

torch.manual_seed(0)
cublas = ctypes.CDLL({str(CUBLASLT)!r})
cudnn = ctypes.CDLL({str(CUDNN)!r})
cublas.stub_heuristics.restype = cublas.stub_products.restype = ctypes.c_int64
cudnn.stub_dnn_heuristics.restype = cudnn.stub_convolutions.restype = ctypes.c_int64

def message_of(function):
    try:
        function()
        torch.mydev.synchronize()
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
    return "no error"

def products(function, *operands):
    "How many products cuBLASLt computed; the result is compared with the CPU's."
    before = cublas.stub_products()
    result = function(*[operand.to("mydev") for operand in operands]).cpu()
    torch.testing.assert_close(result, function(*operands))
    return cublas.stub_products() - before

def convolutions(function, *operands):
    "How many convolutions cuDNN computed, forward and backward; results and gradients are compared with the CPU's."
    before = cudnn.stub_convolutions()
    results = []
    for device in ("mydev", "cpu"):
        inputs = [operand.to(device, copy=True).requires_grad_() for operand in operands]
        result = function(*inputs)
        result.backward(torch.ones_like(result))
        results.append([result.detach().cpu(), *(each.grad.cpu() for each in inputs)])
    for there, here in zip(*results):
        torch.testing.assert_close(there, here)
    return cudnn.stub_convolutions() - before
"""


def said(run_python: Run, code: str, driver: str | None = None, **environment: str) -> list[str]:
    result = run_python(START + code, MYDEV_DRIVER=driver or cuda_driver(), **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "kernels", "--timeout", "600", "--json")


@pytest.mark.parametrize("kernel", ["mydev.matmul", "mydev.convolution"])
def test_kernels_of_libraries_do_what_their_contracts_say(conform: Cli, kernel: str) -> None:
    code, out, err = conform("--driver", cuda_driver(), kernel)
    assert code == 0, out + err
    assert f'"{kernel}"' in out


EACH = """
mm, bmm, linear = torch.mm, torch.bmm, torch.nn.functional.linear
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128):
    def random(*sizes):
        return torch.randn(sizes, dtype=dtype)
    scaled = lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2)
    counts = {
        "mm": products(mm, random(5, 7), random(7, 3)),
        "mm of a transposed one": products(lambda a, b: mm(a.t(), b), random(7, 5), random(7, 3)),
        "mm of two transposed": products(lambda a, b: mm(a.t(), b.t()), random(7, 5), random(3, 7)),
        "mm of rows with gaps": products(lambda a, b: mm(a[:, 1:8], b[:, :3]), random(5, 9), random(7, 4)),
        "mm of an odd address": products(lambda a, b: mm(a[1:36].view(5, 7), b), random(36), random(7, 3)),
        "mv": products(torch.mv, random(5, 7), random(7)),
        "linear": products(linear, random(5, 7), random(3, 7), random(3)),
        "addmm": products(lambda c, a, b: torch.addmm(c, a, b, beta=0.5), random(5, 3), random(5, 7), random(7, 3)),
        "addmm in place": products(lambda c, a, b: c.clone().addmm_(a, b), random(5, 3), random(5, 7), random(7, 3)),
        "addmm of a row": products(lambda c, a, b: torch.addmm(c, a, b, beta=2), random(3), random(5, 7), random(7, 3)),
        "bmm": products(bmm, random(4, 5, 7), random(4, 7, 3)),
        "bmm of a repeated one": products(lambda a, b: bmm(a, b.expand(4, 7, 3)), random(4, 5, 7), random(7, 3)),
        "baddbmm": products(scaled, random(4, 5, 3), random(4, 5, 7), random(4, 7, 3)),
    }
    print([name for name, count in counts.items() if count != 1])
"""


def test_cublaslt_computes_products_of_each_dtype_and_layout(run_python: Run) -> None:
    assert said(run_python, EACH) == ["[]"] * 6


NARROW = """
eights = lambda *sizes: torch.randint(-128, 128, sizes, dtype=torch.int8)
print(products(lambda a, b: torch._int_mm(a, b.t()), eights(20, 32), eights(16, 32)))
print(products(lambda a, b: torch._int_mm(a, b), eights(20, 32), eights(32, 16)))
floats = torch.randn(32, 48).to(torch.float8_e4m3fn)
one = torch.tensor(1.0)
before = cublas.stub_products()
for dtype in (torch.float32, torch.bfloat16):
    there = floats.to("mydev")
    result = torch._scaled_mm(there, there.t(), one.to("mydev"), one.to("mydev"), out_dtype=dtype).cpu()
    torch.testing.assert_close(result, (floats.float() @ floats.float().t()).to(dtype))
print(cublas.stub_products() - before)
"""


def test_cublaslt_multiplies_8_bit_numbers_where_they_lie_as_it_needs_them(run_python: Run) -> None:
    assert said(run_python, NARROW) == ["1", "0", "2"]


def test_the_second_launch_of_a_form_asks_for_no_algorithm(run_python: Run) -> None:
    code = """
        a, b = torch.randn(64, 64, device="mydev"), torch.randn(64, 64, device="mydev")
        def asked(function):
            before = cublas.stub_heuristics()
            function()
            return cublas.stub_heuristics() - before
        print(asked(lambda: a @ b) > 0, asked(lambda: a @ b), asked(lambda: b @ b), asked(lambda: a @ b.t()) > 0)
    """
    assert said(run_python, "if True:" + code) == ["True 0 0 True"]


@pytest.mark.slow
def test_algorithms_of_forms_that_were_used_long_ago_are_asked_for_again(run_python: Run) -> None:
    code = """
        def asked(inner):
            before = cublas.stub_heuristics()
            product = torch.ones(1, inner, device="mydev") @ torch.ones(inner, 1, device="mydev")
            assert product.item() == inner
            return cublas.stub_heuristics() - before
        print(asked(7) > 0, asked(7))
        for inner in range(8, 8 + 1024):
            asked(inner)
        print(asked(7) > 0, asked(1000))
    """
    assert said(run_python, "if True:" + code) == ["True 0", "True 0"]


WHO = """
a = torch.randn(5, 7)
print(products(torch.mm, a, a.t()))
"""


def test_without_cublaslt_a_portable_kernel_multiplies(run_python: Run) -> None:
    assert said(run_python, WHO) == ["1"]
    assert said(run_python, WHO, cuda_driver(cublas="off")) == ["0"]


@pytest.mark.parametrize("status", ["7", "15"])
def test_a_product_that_cublaslt_does_not_know_is_a_portable_kernels(run_python: Run, status: str) -> None:
    assert said(run_python, WHO, CUDA_STUB_FAIL=f"cublasLtMatmulAlgoGetHeuristic:{status}") == ["0"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("cublasLtCreate:1", ["cublasLtCreate on device 0", "cublas=off", "CUBLAS_STATUS_NOT_INITIALIZED (1)"]),
        ("cublasLtMatmulAlgoGetHeuristic:14", ["cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_INTERNAL_ERROR (14)"]),
        ("cublasLtMatmul:14", ["cublasLtMatmul of 3 x 5", "CUBLAS_STATUS_INTERNAL_ERROR (14)", "mydev.matmul"]),
    ],
)
def test_a_failure_of_cublaslt_has_its_name_and_number(run_python: Run, failure: str, expected: list[str]) -> None:
    code = 'print(message_of(lambda: torch.ones(5, 7, device="mydev") @ torch.ones(7, 3, device="mydev")))'
    message = "\n".join(said(run_python, code, CUDA_STUB_FAIL=failure))
    for part in expected:
        assert part in message


GRAPH = """
x, w, b = torch.randn(5, 7), torch.randn(3, 7), torch.randn(3)
there, weight, bias = x.to("mydev"), w.to("mydev"), b.to("mydev")
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    y = torch.nn.functional.linear(there, weight, bias)
for scale in (1.0, 2.0, 3.0, 4.0):
    there.copy_(x * scale)
    before = cublas.stub_products()
    graph.replay()
    torch.testing.assert_close(y.cpu(), torch.nn.functional.linear(x * scale, w, b))
    print(cublas.stub_products() - before)
"""


def test_products_are_captured(run_python: Run) -> None:
    """The first replays launch anew; then it is a graph of CUDA's."""
    assert said(run_python, GRAPH)[-2:] == ["0", "0"]


CONVOLUTIONS = """
conv1d, conv2d, conv3d = torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d
transposed = torch.nn.functional.conv_transpose2d
last = torch.channels_last
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    def random(*sizes):
        return torch.randint(-3, 4, sizes).to(dtype)
    image, weight, bias = random(2, 4, 6, 5), random(6, 4, 3, 2), random(6)
    counts = {
        "conv2d": convolutions(conv2d, image, weight),
        "with a bias": convolutions(conv2d, image, weight, bias),
        "strided": convolutions(lambda x, w: conv2d(x, w, stride=(2, 1), padding=(1, 2)), image, weight),
        "dilated": convolutions(lambda x, w: conv2d(x, w, dilation=2, padding=2), image, weight),
        "in groups": convolutions(lambda x, w: conv2d(x, w, groups=2), image, random(6, 2, 3, 2)),
        "1d": convolutions(lambda x, w: conv1d(x, w, padding=1), random(2, 4, 7), random(6, 4, 3)),
        "3d": convolutions(lambda x, w: conv3d(x, w, stride=2), random(1, 2, 5, 4, 6), random(3, 2, 2, 1, 3)),
        "of a part": 2 + convolutions(lambda x, w: conv2d(x[1:].view(2, 4, 6, 5), w), random(241), weight),
        "transposed": convolutions(lambda x, w: transposed(x, w, stride=2, padding=1), image, random(4, 3, 3, 2)),
    }
    if dtype != torch.float64:
        here = image.to(memory_format=last), weight.to(memory_format=last)
        counts["channels last"] = convolutions(conv2d, *here)
    print([name for name, count in counts.items() if count != 3])
"""


def test_cudnn_convolves_in_each_dtype_and_layout(run_python: Run) -> None:
    """Whole numbers, whose sums are the same in any order."""
    assert said(run_python, CONVOLUTIONS) == ["[]"] * 4


CONVOLVE = """
x, w = torch.randn(2, 4, 6, 5), torch.randn(6, 4, 3, 2)
print(convolutions(torch.nn.functional.conv2d, x, w))
"""


def test_without_cudnn_a_portable_kernel_convolves(run_python: Run) -> None:
    assert said(run_python, CONVOLVE) == ["3"]
    assert said(run_python, CONVOLVE, cuda_driver(cudnn="off")) == ["0"]


def test_a_convolution_that_cudnn_does_not_know_is_a_portable_kernels(run_python: Run) -> None:
    assert said(run_python, CONVOLVE, CUDA_STUB_FAIL="cudnnGetConvolutionForwardAlgorithm_v7:3000") == ["2"]


def test_a_bias_that_cudnn_does_not_take_makes_the_convolution_a_portable_kernels(run_python: Run) -> None:
    code = CONVOLVE + "print(convolutions(torch.nn.functional.conv2d, x, w, torch.randn(6)))"
    assert said(run_python, code, CUDA_STUB_FAIL="cudnnAddTensor:3000") == ["3", "1"]


def test_the_second_convolution_of_a_form_asks_for_no_algorithm(run_python: Run) -> None:
    code = """
        x, w = torch.randn(2, 4, 6, 5, device="mydev"), torch.randn(6, 4, 3, 2, device="mydev")
        def asked(x):
            before = cudnn.stub_dnn_heuristics()
            torch.nn.functional.conv2d(x, w)
            return cudnn.stub_dnn_heuristics() - before
        print(asked(x), asked(x), asked(x + 1), asked(x[:1]))
    """
    assert said(run_python, "if True:" + code) == ["1 0 0 1"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("cudnnCreate:1001", ["cudnnCreate on device 0", "cudnn=off", "CUDNN_STATUS_NOT_INITIALIZED (1001)"]),
        ("cudnnGetConvolutionForwardAlgorithm_v7:4000", ["CUDNN_STATUS_INTERNAL_ERROR (4000)", "mydev.convolution"]),
        (
            "cudnnConvolutionForward:4000",
            ["cudnnConvolutionForward by algorithm 1: CUDNN_STATUS_INTERNAL_ERROR (4000)"],
        ),
    ],
)
def test_a_failure_of_cudnn_has_its_name_and_number(run_python: Run, failure: str, expected: list[str]) -> None:
    code = """
        x, w = torch.ones(2, 4, 6, 5, device="mydev"), torch.ones(6, 4, 3, 2, device="mydev")
        print(message_of(lambda: torch.nn.functional.conv2d(x, w)))
    """
    message = "\n".join(said(run_python, "if True:" + code, CUDA_STUB_FAIL=failure))
    for part in expected:
        assert part in message


CAPTURED = """
x, w, b = torch.randn(2, 4, 6, 5), torch.randn(6, 4, 3, 2), torch.randn(6)
there, weight, bias = x.to("mydev"), w.to("mydev"), b.to("mydev")
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    y = torch.nn.functional.conv2d(there, weight, bias)
for scale in (1.0, 2.0, 3.0, 4.0):
    there.copy_(x * scale)
    before = cudnn.stub_convolutions()
    graph.replay()
    torch.testing.assert_close(y.cpu(), torch.nn.functional.conv2d(x * scale, w, b))
    print(cudnn.stub_convolutions() - before)
"""


def test_convolutions_are_captured(run_python: Run) -> None:
    assert said(run_python, CAPTURED)[-2:] == ["0", "0"]
