// A program as a picture: steps and what flows between them, for Graphviz (`dot -Tsvg`). Thread-safe.
#pragma once

#include <string>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// Returns the text of a digraph. It has a box for each step, and an ellipse for each parameter and constant that is
// read. Edges go from the last writer of memory to its next reader or writer; a dashed one is a wait between lanes.
MYDEV_API std::string dot_of(const Program& program);

}  // namespace mydev::program
