// The groups of the suite for drivers: each is a file of this directory. suite.cpp has their order.
#pragma once

#include <vector>

#include "conform/case.h"

namespace mydev::conform {

std::vector<Case> handshake_cases();

}  // namespace mydev::conform
