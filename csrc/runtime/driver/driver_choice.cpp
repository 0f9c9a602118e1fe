// The library's function for Python, which finds the vendors' packages (mydev/drivers.py). It is called before the
// library of a framework is loaded, since frameworks take the name when they are.
#include <string>

#include "runtime/base/api.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver_life_cycle.h"

// Makes a vendor's driver, in the form of MYDEV_DRIVER, the process's, and names the device. Returns a code; if it is
// not MYDEV_OK, `out_message` says what is wrong, until the thread calls again.
extern "C" MYDEV_API mydev_code mydev_choose_driver(const char* spec, const char* name, const char** out_message) {
  static thread_local std::string message;
  const mydev::RaiserBypass bypass;
  try {
    MYDEV_CHECK(mydev::set_device_name(name), MYDEV_FAILED_PRECONDITION, "the device '", name,
                "' comes too late: this process calls its device '", mydev::device_name(), "' already");
    mydev::choose_driver(spec);
    return MYDEV_OK;
  } catch (const mydev::Error& error) {
    message = error.what();
    *out_message = message.c_str();
    return error.code();
  }
}
