#include "runtime/validation/validation.h"

#include "runtime/driver/driver_loader.h"
#include "runtime/validation/state.h"

namespace mydev::detail {

void validate_driver(mydev_driver_api& table) {
  const mydev_driver_api driver = table;
  validation::put_checks_before(driver, table);
}

}  // namespace mydev::detail
