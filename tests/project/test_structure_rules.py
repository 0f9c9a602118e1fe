"""The rules of test_structure.py find what breaks them, in small trees made for it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from support.function_length import cpp_functions, python_functions
from support.source_order import against_order, below, circle, imports, includes

ORDER = below(["low", "high", "."])


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


# --- includes ---------------------------------------------------------------------------------------------------------


def test_an_include_downwards_is_as_it_should_be(tmp_path: Path) -> None:
    files = {
        "low/a.h": "#pragma once\n",
        "high/b.cpp": '#include "low/a.h"\n#include <vector>\n',
        "top.cpp": '#include "high/c.h"',
    }
    edges = includes(tree(tmp_path, {**files, "high/c.h": '#include "low/a.h"'}))
    assert edges[Path("high/b.cpp")] == {Path("low/a.h")}
    assert against_order(edges, ORDER) == []


@pytest.mark.parametrize("line", ['#include "high/b.h"', '#  include "high/b.h"  // why', '#include "../high/b.h"'])
def test_an_include_upwards_is_found(tmp_path: Path, line: str) -> None:
    edges = includes(tree(tmp_path, {"low/a.cpp": f"// A file.\n{line}\n", "high/b.h": ""}))
    assert against_order(edges, ORDER) == ["low/a.cpp uses high/b.h"]


def test_an_include_of_the_files_beside_the_folders_is_found(tmp_path: Path) -> None:
    edges = includes(tree(tmp_path, {"low/a.cpp": '#include "library.h"', "library.h": ""}))
    assert against_order(edges, ORDER) == ["low/a.cpp uses library.h"]


def test_a_header_is_found_in_the_further_places(tmp_path: Path) -> None:
    root = tree(tmp_path, {"include/mydev/a.h": "", "low/b.h": '#include "mydev/a.h"'})
    assert includes(root, [root / "include"])[Path("low/b.h")] == {Path("include/mydev/a.h")}


def test_a_folder_without_a_place_in_the_order_is_found(tmp_path: Path) -> None:
    edges = includes(tree(tmp_path, {"attic/a.h": ""}))
    assert against_order(edges, ORDER) == ["attic/ has no place in the order"]


def test_a_circle_of_headers_is_found_within_a_folder(tmp_path: Path) -> None:
    files = {"low/a.h": '#include "low/b.h"', "low/b.h": '#include "low/c.h"', "low/c.h": '#include "low/a.h"'}
    edges = includes(tree(tmp_path, files))
    assert against_order(edges, ORDER) == []
    assert circle(edges) == ["low/a.h", "low/b.h", "low/c.h"]


def test_two_ways_to_one_header_are_no_circle(tmp_path: Path) -> None:
    files = {"low/a.h": '#include "low/b.h"\n#include "low/c.h"', "low/b.h": '#include "low/c.h"', "low/c.h": ""}
    assert circle(includes(tree(tmp_path, files))) == []


# --- imports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import package.high.b",
        "from package.high import b",
        "from package.high.b import name",
        "from ..high import b",
        "def lazy():\n    from package.high.b import name",
        "if TYPE_CHECKING:\n    from package.high import b",
    ],
)
def test_an_import_upwards_is_found(tmp_path: Path, text: str) -> None:
    files = {
        "__init__.py": "",
        "low/__init__.py": "",
        "high/__init__.py": "",
        "low/a.py": text,
        "high/b.py": "name = 1",
    }
    edges = imports(tree(tmp_path / "package", files))
    assert against_order(edges, ORDER) == ["low/a.py uses high/b.py"]


def test_an_import_of_what_a_package_holds_is_one_of_the_package(tmp_path: Path) -> None:
    files = {
        "__init__.py": "version = 1",
        "low/a.py": "from package import version",
        "low/b.py": "from package.low import a",
    }
    edges = imports(tree(tmp_path / "package", files))
    assert edges == {
        Path("__init__.py"): set(),
        Path("low/a.py"): {Path("__init__.py")},
        Path("low/b.py"): {Path("low/a.py")},
    }


def test_an_extension_module_is_no_source(tmp_path: Path) -> None:
    package = tree(tmp_path / "package", {"__init__.py": "", "_C.pyi": "", "low/a.py": "from package import _C"})
    assert imports(package)[Path("low/a.py")] == set()


def test_a_file_may_count_for_another_folder(tmp_path: Path) -> None:
    files = {"__init__.py": "import package.high.b", "high/b.py": "from package.leaf import x", "leaf.py": "x = 1"}
    order = below([".", "high", "top"])
    edges = imports(tree(tmp_path / "package", files))
    assert against_order(edges, order) == ["__init__.py uses high/b.py"]
    assert against_order(edges, order, {Path("__init__.py"): "top"}) == []


# --- functions --------------------------------------------------------------------------------------------------------


def test_python_functions_are_measured_from_def_to_end() -> None:
    text = "class A:\n    def f(self):\n        x = 1\n\n        return x\n\n\nasync def g(): ...\n"
    assert python_functions(text) == [("g", 8, 1), ("f", 2, 4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("int f(int a) {\n  return a;\n}\n", [("f", 1, 3)], id="function"),
        pytest.param(
            "namespace a::b {\nclass C : public D {\n public:\n  int f() const override {\n  }\n};\n}\n",
            [("f", 4, 2)],
            id="method",
        ),
        pytest.param("C::C(int a)\n    : a_{a}, b_(a) {\n  f();\n}\n", [("C::C", 1, 4)], id="constructor"),
        pytest.param("template <class T, int N = (1)>\nauto f(T t) -> int {\n}\n", [("f", 1, 3)], id="template"),
        pytest.param(
            "void f() {\n  auto g = [] {\n  };\n}\nvoid h() {\n}\n", [("f", 1, 4), ("h", 5, 2)], id="inner-lambda"
        ),
        pytest.param("const auto f = [](int a) {\n  return a;\n};\n", [("lambda", 1, 3)], id="lambda"),
        pytest.param('void f() {\n  // }\n  g("}", \'}\', R"(})");  /* } */\n}\n', [("f", 1, 4)], id="literals"),
        pytest.param(
            '#define F(x) \\\n  void x() { \\\n  }\nextern "C" {\nint g(void) {\n}\n}\n', [("g", 5, 2)], id="macro"
        ),
        pytest.param("TEST(Suite, Name) {\n}\n", [("TEST", 1, 2)], id="test"),
        pytest.param("const int kTable[] = {\n  1,\n  2,\n};\nenum class E { a, b };\n", [], id="data"),
        pytest.param(
            "INSTANTIATE(A, B,\n  Values(C{1, [] {\n    return 1;\n  }()}));\nvoid f() {\n}\n",
            [("f", 5, 2)],
            id="table",
        ),
        pytest.param("void f(std::vector<int> a = {}) {\n}\n", [("f", 1, 2)], id="default"),
    ],
)
def test_cpp_functions_are_measured_from_head_to_end(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert cpp_functions(text) == expected


def test_a_long_function_is_seen_as_long() -> None:
    body = "".join(f"  if (x == {i}) {{ y({i}); }}\n" for i in range(100))
    text = dedent("""\
        // A class.
        class A {
          A() = default;
        };
        """)
    assert cpp_functions(f"{text}void A::f() {{\n{body}}}\n") == [("A::f", 5, 102)]
