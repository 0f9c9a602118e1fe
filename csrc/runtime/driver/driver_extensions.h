// The extensions of a driver (mydev/driver_extensions.h). They are asked for and checked when the driver is loaded, and
// kept with it.
//
// An extension that the runtime knows has a table of the runtime's own size, in which entries that an older driver does
// not know are NULL. Others are kept by name and version, for people. Any fault raises an Error that names the driver
// and the extension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mydev/driver_extensions.h"

namespace mydev {

struct DriverExtension {
  std::string name;
  uint32_t version;              // of the table; of an extension that the runtime does not know, as listed
  std::vector<std::byte> table;  // empty: the runtime does not know the extension

  bool known() const noexcept { return !table.empty(); }
  template <typename Table>
  const Table& as() const noexcept {
    return *reinterpret_cast<const Table*>(table.data());
  }
};

// `driver` is the driver's name, for messages. Called after initialize. Raises FAILED_PRECONDITION.
std::vector<DriverExtension> load_extensions(const std::string& driver, const mydev_driver_api& api);

}  // namespace mydev
