// A program as a picture: steps and what flows between them, for Graphviz (`dot -Tsvg`). Thread-safe.
#pragma once

#include <string>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// The text of a digraph: a box for each step, an ellipse for each parameter and constant that is read, an edge from the
// last writer of memory to its next reader or writer, and a dashed one for each wait between lanes.
MYDEV_API std::string dot_of(const Program& program);

}  // namespace mydev::program
