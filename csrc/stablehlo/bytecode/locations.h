// Locations of operations, read from bytecode when someone asks.
#pragma once

#include <memory>

#include "stablehlo/bytecode/sections.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

// Makes a table from the attributes of a program, whose bytes outlive it. A location is the number of an attribute.
std::unique_ptr<const LocationTable> bytecode_locations(BytecodeSections sections);

}  // namespace mydev::stablehlo
