// Entries of clients.
#include <cstdlib>
#include <string>

#include "pjrt/api/entries.h"
#include "pjrt/arguments.h"
#include "pjrt/platform.h"
#include "pjrt/submission.h"
#include "runtime/base/config.h"
#include "runtime/base/device_name.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev::pjrt {

namespace {

Platform& platform_of(PJRT_Client* client) {
  return required(client, "the client").platform;
}

// The option "driver", in the words of MYDEV_DRIVER. A process has one, whoever asks first.
void choose_driver(const std::string& driver) {
  if (!driver_loaded()) {
    ::setenv("MYDEV_DRIVER", driver.c_str(), /*overwrite=*/1);  // NOLINT(concurrency-mt-unsafe): see config.h
    return;
  }
  MYDEV_CHECK(driver == config_string("MYDEV_DRIVER"), MYDEV_FAILED_PRECONDITION, "the client asks for driver '",
              driver, "', and this process uses '", config_string("MYDEV_DRIVER"), "' already");
}

void create_client(PJRT_Client_Create_Args& args) {
  for (size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& option = args.create_options[i];
    MYDEV_CHECK(text_of(option.name, option.name_size) == "driver" && option.type == PJRT_NamedValue_kString,
                MYDEV_INVALID_ARGUMENT, "client option '", text_of(option.name, option.name_size),
                "' is not known; there is 'driver', a text like that of the environment variable MYDEV_DRIVER");
    choose_driver(std::string(text_of(option.string_value, option.value_size)));
  }
  args.client = new PJRT_Client{Platform::get()};
}

void destroy_client(PJRT_Client_Destroy_Args& args) {
  platform_of(args.client).wait_for_devices();
  wait_for_what_is_let_go();
  wait_for_completions();
  delete args.client;
}

void get_platform_name(PJRT_Client_PlatformName_Args& args) {
  give_text(MYDEV_DEVICE_NAME, args.platform_name, args.platform_name_size);
}

void get_platform_version(PJRT_Client_PlatformVersion_Args& args) {
  give_text(platform_of(args.client).version(), args.platform_version, args.platform_version_size);
}

void get_process_index(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = 0;
}

void get_devices(PJRT_Client_Devices_Args& args) {
  args.devices = platform_of(args.client).devices().data();
  args.num_devices = platform_of(args.client).devices().size();
}

void get_addressable_devices(PJRT_Client_AddressableDevices_Args& args) {
  args.addressable_devices = platform_of(args.client).devices().data();
  args.num_addressable_devices = platform_of(args.client).devices().size();
}

void look_up_device(PJRT_Client_LookupDevice_Args& args) {
  args.device = &platform_of(args.client).device(args.id);
}

void look_up_addressable_device(PJRT_Client_LookupAddressableDevice_Args& args) {
  args.addressable_device = &platform_of(args.client).device(args.local_hardware_id);
}

void get_addressable_memories(PJRT_Client_AddressableMemories_Args& args) {
  args.addressable_memories = platform_of(args.client).memories().data();
  args.num_addressable_memories = platform_of(args.client).memories().size();
}

void get_default_device_assignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
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

void get_topology(PJRT_Client_TopologyDescription_Args& args) {
  args.topology = &platform_of(args.client).topology();
}

}  // namespace

void add_client_entries(PJRT_Api& api) {
  MYDEV_PJRT_ENTRY(api, PJRT_Client_Create, create_client, client);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_Destroy, destroy_client, client);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_PlatformName, get_platform_name, platform_name_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_PlatformVersion, get_platform_version, platform_version_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_ProcessIndex, get_process_index, process_index);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_Devices, get_devices, num_devices);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_AddressableDevices, get_addressable_devices, num_addressable_devices);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_LookupDevice, look_up_device, device);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_LookupAddressableDevice, look_up_addressable_device, addressable_device);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_AddressableMemories, get_addressable_memories, num_addressable_memories);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_DefaultDeviceAssignment, get_default_device_assignment, default_assignment);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_TopologyDescription, get_topology, topology);
}

}  // namespace mydev::pjrt
