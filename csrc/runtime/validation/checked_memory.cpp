// Validation: life, devices, memory, host access. Names no lines of Python: the allocator calls these entries with its
// own locks held, and asking for a line may wait for Python's.
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/validation/finding.h"
#include "runtime/validation/state.h"

namespace mydev::validation {

namespace {

const char* last_error() {
  if (const char* own = own_error()) return own;
  const char* message = state().driver.last_error();
  return message != nullptr ? message : "(the driver's last_error gave NULL, which mydev/driver.h forbids)";
}

// --- life, devices ---------------------------------------------------------------------------------------------------

std::vector<mydev_device_properties> read_devices(const mydev_driver_api& driver) {
  int32_t count = 0;
  if (driver.device_count(&count) != MYDEV_OK || count <= 0) return {};  // the runtime asks again, and says so
  std::vector<mydev_device_properties> devices(static_cast<size_t>(std::min(count, 64)));
  for (size_t index = 0; index < devices.size(); ++index) {
    devices[index].struct_size = sizeof(mydev_device_properties);
    driver.device_properties(static_cast<int32_t>(index), &devices[index]);
  }
  return devices;
}

mydev_code initialize(const char* options, const mydev_host_services* host) {
  State& self = state();
  return checked("initialize", [&] {
    const mydev_host_services* services = nullptr;
    {
      const std::lock_guard lock(self.mutex);
      services = services_for(self, host);
    }
    const mydev_code code = self.driver.initialize(options, services);
    if (code != MYDEV_OK) return code;
    std::vector<mydev_device_properties> devices = read_devices(self.driver);
    const std::lock_guard lock(self.mutex);
    self.objects.set_devices(std::move(devices));
    if (self.driver.num_extensions != 0) self.objects.allow_other_memory();
    return code;
  });
}

void finalize() {
  State& self = state();
  {
    const std::lock_guard lock(self.mutex);
    while (const auto overdue = self.completions.overdue(nullptr, self.completions.now())) report(*overdue);
    if (self.calls_waiting != 0) {
      report(text("the driver has not made ", self.calls_waiting,
                  " calls that stream_host_call or event_on_done asked for; each is to be made once"));
    }
    const std::string total = text("validate: findings: ", findings(), "; alive at exit: ", self.objects.summary());
    log(findings() != 0 ? MYDEV_LOG_ERROR : MYDEV_LOG_INFO, total.c_str());
  }
  if (self.driver.finalize != nullptr) self.driver.finalize();
}

mydev_code device_properties(int32_t device, mydev_device_properties* out) {
  State& self = state();
  return checked("device_properties", [&] {
    require(out != nullptr, MYDEV_INVALID_ARGUMENT, "out_properties is NULL");
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
    }
    const mydev_code code = self.driver.device_properties(device, out);
    if (code != MYDEV_OK) return code;
    const auto claims = [&](uint32_t capability) { return (out->capabilities & capability) != 0; };
    require(!claims(MYDEV_CAPABILITY_PEER) || self.driver.copy_peer != nullptr, MYDEV_FAILED_PRECONDITION, "device ",
            device, " claims PEER, and the driver has no copy_peer");
    require(!claims(MYDEV_CAPABILITY_LAUNCH_COPIES) || self.driver.stream_status != nullptr, MYDEV_FAILED_PRECONDITION,
            "device ", device, " claims LAUNCH_COPIES, and the driver has no stream_status to tell failures with");
    return code;
  });
}

// --- memory ----------------------------------------------------------------------------------------------------------

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  State& self = state();
  return checked("memory_alloc", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
      require(bytes > 0 && out_data != nullptr, MYDEV_INVALID_ARGUMENT, "bytes is ", bytes, ", out_data ",
              static_cast<void*>(out_data), "; neither may be 0");
    }
    const mydev_code code = self.driver.memory_alloc(device, bytes, out_data);
    if (code != MYDEV_OK) return code;
    const std::lock_guard lock(self.mutex);
    self.objects.add_allocation(device, *out_data, bytes);
    return code;
  });
}

// Forgets an allocation before the driver frees it, since the driver may hand its address to another thread at once.
template <typename Free>
mydev_code free_checked(const char* entry, int32_t space, void* data, uint64_t bytes, const Free& free) {
  State& self = state();
  return checked(entry, [&] {
    {
      const std::lock_guard lock(self.mutex);
      if (space != kPinned) self.objects.device(space);
      self.objects.check_allocation(space, data, bytes);
      const auto begin = reinterpret_cast<uintptr_t>(data);
      const SharedAccess user = self.objects.space(space).history.pending(begin, begin + bytes, self.order.finished());
      if (user != nullptr) {
        throw Finding(
            MYDEV_FAILED_PRECONDITION,
            text("the ", bytes, " bytes at ", data, " are freed while work may use them: ", user->command->what, " on ",
                 user->command->stream, user->command->source.empty() ? "" : " at ", user->command->source,
                 " has them as its ", user->role,
                 ", and nobody has waited for it; wait for the stream before the memory is freed"));
      }
      self.objects.remove_allocation(space, data);
    }
    const mydev_code code = free();
    if (code != MYDEV_OK) {  // it is alive all the same
      const std::lock_guard lock(self.mutex);
      self.objects.add_allocation(space, data, bytes);
    }
    return code;
  });
}

mydev_code memory_free(int32_t device, void* data, uint64_t bytes) {
  return free_checked("memory_free", device, data, bytes,
                      [&] { return state().driver.memory_free(device, data, bytes); });
}

mydev_code memory_info(int32_t device, uint64_t* out_free, uint64_t* out_total) {
  State& self = state();
  return checked("memory_info", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
    }
    const mydev_code code = self.driver.memory_info(device, out_free, out_total);
    require(code != MYDEV_OK || *out_free <= *out_total, MYDEV_FAILED_PRECONDITION, "the driver says that ",
            code == MYDEV_OK ? *out_free : 0, " bytes are free of ", code == MYDEV_OK ? *out_total : 0);
    return code;
  });
}

mydev_code host_alloc(uint64_t bytes, void** out_data) {
  State& self = state();
  return checked("host_alloc", [&] {
    require(bytes > 0 && out_data != nullptr, MYDEV_INVALID_ARGUMENT, "bytes is ", bytes, ", out_data ",
            static_cast<void*>(out_data), "; neither may be 0");
    const mydev_code code = self.driver.host_alloc(bytes, out_data);
    if (code != MYDEV_OK) return code;
    const std::lock_guard lock(self.mutex);
    self.objects.add_allocation(kPinned, *out_data, bytes);
    return code;
  });
}

mydev_code host_free(void* data, uint64_t bytes) {
  return free_checked("host_free", kPinned, data, bytes, [&] { return state().driver.host_free(data, bytes); });
}

mydev_code pointer_info(const void* pointer, mydev_pointer_info* out) {
  State& self = state();
  return checked("pointer_info", [&] {
    require(out != nullptr, MYDEV_INVALID_ARGUMENT, "out_info is NULL");
    const mydev_code code = self.driver.pointer_info(pointer, out);
    require(code == MYDEV_OK, MYDEV_FAILED_PRECONDITION, "the driver failed for ", pointer,
            "; a pointer that it does not know is ORDINARY");
    return code;
  });
}

// --- host access -----------------------------------------------------------------------------------------------------

mydev_code host_access_begin(int32_t device) {
  State& self = state();
  return checked("host_access_begin", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
      require(self.objects.has(device, MYDEV_CAPABILITY_HOST_ACCESSIBLE), MYDEV_INVALID_ARGUMENT, "device ", device,
              " is not HOST_ACCESSIBLE; copy the memory instead");
    }
    const mydev_code code = self.driver.host_access_begin(device);
    const std::lock_guard lock(self.mutex);
    if (code == MYDEV_OK) ++self.objects.device(device).host_accesses;
    return code;
  });
}

mydev_code host_access_end(int32_t device) {
  State& self = state();
  return checked("host_access_end", [&] {
    {
      const std::lock_guard lock(self.mutex);
      int64_t& open = self.objects.device(device).host_accesses;
      require(open > 0, MYDEV_FAILED_PRECONDITION, "device ", device, " has no host access that was begun");
      --open;
    }
    return self.driver.host_access_end(device);
  });
}

// Returns the device's ranges of host access, if the arguments of an entry for them make sense. Under the mutex.
int64_t& checked_ranges(State& self, int32_t device, uint64_t bytes, uint32_t access) {
  int64_t& open = self.objects.device(device).host_ranges;
  require(self.objects.has(device, MYDEV_CAPABILITY_HOST_ACCESSIBLE), MYDEV_INVALID_ARGUMENT, "device ", device,
          " is not HOST_ACCESSIBLE; copy the memory instead");
  require(bytes > 0 && access != 0 && (access & ~(MYDEV_HOST_READS | MYDEV_HOST_WRITES)) == 0, MYDEV_INVALID_ARGUMENT,
          bytes, " bytes with access ", access, "; see mydev_host_access");
  return open;
}

mydev_code host_access_begin_range(int32_t device, void* pointer, uint64_t bytes, uint32_t access) {
  State& self = state();
  return checked("host_access_begin_range", [&] {
    {
      const std::lock_guard lock(self.mutex);
      checked_ranges(self, device, bytes, access);
    }
    const mydev_code code = self.driver.host_access_begin_range(device, pointer, bytes, access);
    const std::lock_guard lock(self.mutex);
    if (code == MYDEV_OK) ++self.objects.device(device).host_ranges;
    return code;
  });
}

mydev_code host_access_end_range(int32_t device, void* pointer, uint64_t bytes, uint32_t access) {
  State& self = state();
  return checked("host_access_end_range", [&] {
    {
      const std::lock_guard lock(self.mutex);
      int64_t& open = checked_ranges(self, device, bytes, access);
      require(open > 0, MYDEV_FAILED_PRECONDITION, "device ", device, " has no range that was begun");
      --open;
    }
    return self.driver.host_access_end_range(device, pointer, bytes, access);
  });
}

}  // namespace

void put_memory_checks(mydev_driver_api& table) {
  table.initialize = initialize;
  table.finalize = finalize;
  table.last_error = last_error;
  table.device_properties = device_properties;
  table.memory_alloc = memory_alloc;
  table.memory_free = memory_free;
  if (table.memory_info != nullptr) table.memory_info = memory_info;
  if (table.host_alloc != nullptr) {
    table.host_alloc = host_alloc;
    table.host_free = host_free;
  }
  if (table.pointer_info != nullptr) table.pointer_info = pointer_info;
  if (table.host_access_begin != nullptr) {
    table.host_access_begin = host_access_begin;
    table.host_access_end = host_access_end;
  }
  if (table.host_access_begin_range != nullptr) {
    table.host_access_begin_range = host_access_begin_range;
    table.host_access_end_range = host_access_end_range;
  }
}

}  // namespace mydev::validation
