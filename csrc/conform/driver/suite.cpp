// The conformance suite for drivers: what mydev/driver.h promises, in the order in which one brings a device up.
#include "conform/driver/groups.h"

namespace mydev::conform {
namespace {

[[maybe_unused]] const bool registered = register_suite({
    .name = "driver",
    .title = "what mydev/driver.h promises",
    .groups = {{"handshake", handshake_cases}},
});

}  // namespace
}  // namespace mydev::conform
