// Locations of operations, read from bytecode when someone asks.
#pragma once

#include <memory>

#include "stablehlo/bytecode/sections.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

// Of the attributes of a program, whose bytes outlive it; a location is the number of one.
std::unique_ptr<const LocationTable> bytecode_locations(BytecodeSections sections);

}  // namespace mydev::stablehlo
