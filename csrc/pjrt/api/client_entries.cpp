// Entries of clients.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "pjrt/api/entries.h"
#include "pjrt/buffer/submission.h"
#include "pjrt/device/platform.h"
#include "runtime/base/config.h"
#include "runtime/base/device_name.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev::pjrt {

namespace {

Platform& platform_of(PJRT_Client* client) {
  return required(client, "the client").platform;
}

// The store that the client brings.
class ClientStore final : public transport::KeyValueStore {
 public:
  explicit ClientStore(const PJRT_Client_Create_Args& client) : client_(client) {}

  void put(const std::string& key, const std::string& value) override {
    PJRT_KeyValuePutCallback_Args args{};
    args.struct_size = sizeof args;
    args.key = key.data();
    args.key_size = key.size();
    args.value = value.data();
    args.value_size = value.size();
    args.callback_error = make_error;
    args.user_arg = client_.kv_put_user_arg;
    raise_if_failed(client_.kv_put_callback(&args));
  }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    PJRT_KeyValueGetCallback_Args args{};
    args.struct_size = sizeof args;
    args.key = key.data();
    args.key_size = key.size();
    args.timeout_in_ms = static_cast<int>(timeout.count());
    args.callback_error = make_error;
    args.user_arg = client_.kv_get_user_arg;
    raise_if_failed(client_.kv_get_callback(&args));
    std::string value(text_of(args.value, args.value_size));
    if (args.value_deleter_callback != nullptr) args.value_deleter_callback(args.value);
    return value;
  }

 private:
  static PJRT_Error* make_error(PJRT_Error_Code code, const char* message, size_t size) {
    return to_error({static_cast<mydev_code>(code), std::string(text_of(message, size))});
  }
  static void raise_if_failed(PJRT_Error* error) {
    if (error == nullptr) return;
    const std::unique_ptr<PJRT_Error> owned(error);
    raise(owned->code, owned->message);
  }

  const PJRT_Client_Create_Args& client_;
};

int number_of(const PJRT_NamedValue& option, std::string_view name) {
  MYDEV_CHECK(option.type == PJRT_NamedValue_kInt64 && option.int64_value >= 0 && option.int64_value <= INT32_MAX,
              MYDEV_INVALID_ARGUMENT, "client option '", name, "' is no number from 0 on");
  return static_cast<int>(option.int64_value);
}

}  // namespace

MYDEV_PJRT_ENTRY(PJRT_Client_Create, client) {
  ProcessPlace place;
  for (size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& option = args.create_options[i];
    const std::string_view name = text_of(option.name, option.name_size);
    if (name == "driver" && option.type == PJRT_NamedValue_kString) {
      choose_driver(std::string(text_of(option.string_value, option.value_size)));
    } else if (name == "node_id") {
      place.index = number_of(option, name);
    } else if (name == "num_nodes") {
      place.count = number_of(option, name);
    } else if (name == "device_ordinal") {
      place.only_device = number_of(option, name);
    } else {
      raise(
          MYDEV_INVALID_ARGUMENT,
          "client option '" + std::string(name) +
              "' is not known; there are 'driver', a text like that of the environment variable MYDEV_DRIVER, and the "
              "numbers 'node_id' and 'num_nodes', for clients of several processes, and 'device_ordinal', for a "
              "client that uses one device alone");
    }
  }
  MYDEV_CHECK(place.index < place.count, MYDEV_INVALID_ARGUMENT, "client option 'node_id' is ", place.index,
              ", and 'num_nodes' ", place.count, ": processes are numbered from 0");
  ClientStore store(args);
  if (args.kv_get_callback != nullptr && args.kv_put_callback != nullptr) place.store = &store;
  args.client = new PJRT_Client{Platform::open(place)};
}

MYDEV_PJRT_ENTRY(PJRT_Client_Destroy, client) {
  platform_of(args.client).wait_for_devices();
  wait_for_releases();
  wait_for_completions();
  delete args.client;
}

MYDEV_PJRT_GIVE_TEXT(PJRT_Client_PlatformName, platform_name, device_name());
MYDEV_PJRT_GIVE_TEXT(PJRT_Client_PlatformVersion, platform_version, platform_of(args.client).version());
MYDEV_PJRT_GIVE(PJRT_Client_ProcessIndex, process_index, platform_of(args.client).process());
MYDEV_PJRT_GIVE_LIST(PJRT_Client_Devices, devices, platform_of(args.client).devices());
MYDEV_PJRT_GIVE_LIST(PJRT_Client_AddressableDevices, addressable_devices, platform_of(args.client).local_devices());
MYDEV_PJRT_GIVE(PJRT_Client_LookupDevice, device, &platform_of(args.client).device(args.id));
MYDEV_PJRT_GIVE(PJRT_Client_LookupAddressableDevice, addressable_device,
                &platform_of(args.client).local_device(args.local_hardware_id));
MYDEV_PJRT_GIVE_LIST(PJRT_Client_AddressableMemories, addressable_memories, platform_of(args.client).memories());

MYDEV_PJRT_ENTRY(PJRT_Client_DefaultDeviceAssignment, default_assignment) {
  const auto available = static_cast<int64_t>(platform_of(args.client).devices().size());
  const int64_t wanted = int64_t{args.num_replicas} * args.num_partitions;
  MYDEV_CHECK(args.num_replicas > 0 && args.num_partitions > 0 && wanted <= available, MYDEV_INVALID_ARGUMENT,
              args.num_replicas, " replicas of ", args.num_partitions, " partitions do not fit on ", available,
              " devices");
  MYDEV_CHECK(static_cast<int64_t>(args.default_assignment_size) >= wanted, MYDEV_FAILED_PRECONDITION,
              "the array for the device assignment has ", args.default_assignment_size, " elements, and ", wanted,
              " are needed");
  for (int64_t i = 0; i < wanted; ++i) args.default_assignment[i] = static_cast<int>(i);
}

// Ignores the client's news of other processes. The connections between the processes report them sooner, and clients
// take an error here for a reason to end the process.
MYDEV_PJRT_ENTRY(PJRT_Client_UpdateGlobalProcessInfo, client) {}

MYDEV_PJRT_GIVE(PJRT_Client_TopologyDescription, topology, &platform_of(args.client).topology());

}  // namespace mydev::pjrt
