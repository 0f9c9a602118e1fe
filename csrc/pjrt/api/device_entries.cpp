// Entries of devices, memories and topologies.
#include <string>
#include <utility>

#include "pjrt/api/entries.h"
#include "pjrt/base/wire.h"
#include "pjrt/device/platform.h"
#include "runtime/base/device_name.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev::pjrt {

namespace {

PJRT_DeviceDescription& description_of(PJRT_DeviceDescription* description) {
  return required(description, "the device description");
}
PJRT_Device& device_of(PJRT_Device* device) {
  return required(device, "the device");
}
LocalDevice& local_device_of(PJRT_Device* device) {
  return Platform::get().local(device_of(device));
}
PJRT_Memory& memory_of(PJRT_Memory* memory) {
  return required(memory, "the memory");
}
PJRT_TopologyDescription& topology_of(PJRT_TopologyDescription* topology) {
  return required(topology, "the topology");
}

std::string serialized_topology() {
  WireWriter message;
  message.bytes(1, Platform::get().version());
  message.number(2, Platform::get().fingerprint());
  return std::move(message).take();
}

}  // namespace

MYDEV_PJRT_GIVE(PJRT_DeviceDescription_Id, id, description_of(args.device_description).id);
MYDEV_PJRT_GIVE(PJRT_DeviceDescription_ProcessIndex, process_index, description_of(args.device_description).process);
MYDEV_PJRT_DO(PJRT_DeviceDescription_Attributes, attributes,
              give_list(description_of(args.device_description).attributes, args.attributes, args.num_attributes));
MYDEV_PJRT_GIVE_TEXT(PJRT_DeviceDescription_Kind, device_kind, description_of(args.device_description).kind);
MYDEV_PJRT_GIVE_TEXT(PJRT_DeviceDescription_DebugString, debug_string,
                     description_of(args.device_description).debug_string);
MYDEV_PJRT_GIVE_TEXT(PJRT_DeviceDescription_ToString, to_string, description_of(args.device_description).to_string);

MYDEV_PJRT_GIVE(PJRT_Device_GetDescription, device_description, &device_of(args.device).description);
MYDEV_PJRT_GIVE(PJRT_Device_IsAddressable, is_addressable, Platform::get().is_local(device_of(args.device)));
// Clients ask for these of devices of other processes too, and take an error for a reason to end the process.
MYDEV_PJRT_ENTRY(PJRT_Device_LocalHardwareId, local_hardware_id) {
  PJRT_Device& device = device_of(args.device);
  const Platform& platform = Platform::get();
  args.local_hardware_id = platform.is_local(device) ? platform.local(device).device.index : -1;
}
MYDEV_PJRT_ENTRY(PJRT_Device_AddressableMemories, num_memories) {
  PJRT_Device& device = device_of(args.device);
  const Platform& platform = Platform::get();
  args.memories = platform.is_local(device) ? platform.local(device).memory_handles.data() : nullptr;
  args.num_memories = platform.is_local(device) ? kMemoryKinds : 0;
}
MYDEV_PJRT_GIVE(PJRT_Device_DefaultMemory, memory, &local_device_of(args.device).default_memory());
// Clients take an error here for a reason to end the process, and call the deleter where there is one.
MYDEV_PJRT_ENTRY(PJRT_Device_GetAttributes, attributes_deleter) {
  args.attributes = nullptr;
  args.num_attributes = 0;
  args.device_attributes = nullptr;
  args.attributes_deleter = [](void*) {};
}

MYDEV_PJRT_ENTRY(PJRT_Device_MemoryStats, bytes_in_use) {
  const int index = local_device_of(args.device).device.index;
  const AllocatorStats stats = allocator_stats(index);
  uint64_t free_bytes = 0, total_bytes = 0;
  memory_info(index, free_bytes, total_bytes);
  const auto limit = static_cast<int64_t>(static_cast<double>(total_bytes) * memory_fraction(index));
  // A caller with an older version has no field there.
  const auto has = [&args](const bool& field) {
    return reinterpret_cast<const char*>(&field + 1) - reinterpret_cast<const char*>(&args) <=
           static_cast<ptrdiff_t>(args.struct_size);
  };
  const auto give = [&has](int64_t value, int64_t& out_value, bool& out_is_set) {
    if (!has(out_is_set)) return;
    out_value = value;
    out_is_set = true;
  };
  args.bytes_in_use = stats.allocated_bytes.all.current;
  give(stats.allocated_bytes.all.peak, args.peak_bytes_in_use, args.peak_bytes_in_use_is_set);
  give(stats.allocation.all.allocated, args.num_allocs, args.num_allocs_is_set);
  give(limit, args.bytes_limit, args.bytes_limit_is_set);
  give(stats.reserved_bytes.all.current, args.bytes_reserved, args.bytes_reserved_is_set);
  give(stats.reserved_bytes.all.peak, args.peak_bytes_reserved, args.peak_bytes_reserved_is_set);
  give(limit, args.bytes_reservable_limit, args.bytes_reservable_limit_is_set);
  give(stats.reserved_bytes.all.current, args.pool_bytes, args.pool_bytes_is_set);
  give(stats.reserved_bytes.all.peak, args.peak_pool_bytes, args.peak_pool_bytes_is_set);
  for (bool* not_known : {&args.largest_alloc_size_is_set, &args.largest_free_block_bytes_is_set}) {
    if (has(*not_known)) *not_known = false;
  }
}

MYDEV_PJRT_GIVE(PJRT_Memory_Id, id, memory_of(args.memory).id);
MYDEV_PJRT_GIVE_TEXT(PJRT_Memory_Kind, kind, kMemoryKindNames[static_cast<size_t>(memory_of(args.memory).kind)]);
MYDEV_PJRT_GIVE(PJRT_Memory_Kind_Id, kind_id, static_cast<int>(memory_of(args.memory).kind));
MYDEV_PJRT_GIVE_TEXT(PJRT_Memory_DebugString, debug_string, memory_of(args.memory).debug_string);
MYDEV_PJRT_GIVE_TEXT(PJRT_Memory_ToString, to_string, memory_of(args.memory).to_string);
MYDEV_PJRT_ENTRY(PJRT_Memory_AddressableByDevices, num_devices) {
  args.devices = &memory_of(args.memory).device->handle;
  args.num_devices = 1;
}

MYDEV_PJRT_ENTRY(PJRT_TopologyDescription_Destroy, topology) {}  // it is the platform's
MYDEV_PJRT_GIVE_TEXT(PJRT_TopologyDescription_PlatformName, platform_name, device_name());
MYDEV_PJRT_GIVE_TEXT(PJRT_TopologyDescription_PlatformVersion, platform_version, Platform::get().version());
MYDEV_PJRT_GIVE_LIST(PJRT_TopologyDescription_GetDeviceDescriptions, descriptions,
                     topology_of(args.topology).descriptions);
MYDEV_PJRT_ENTRY(PJRT_TopologyDescription_Attributes, num_attributes) {
  args.attributes = nullptr;
  args.num_attributes = 0;
}
// There is one topology: that of the devices which this process has.
MYDEV_PJRT_ENTRY(PJRT_TopologyDescription_Create, topology) {
  const std::string_view name = text_of(args.topology_name, args.topology_name_size);
  MYDEV_CHECK((name.empty() || name == device_name()) && args.num_options == 0, MYDEV_INVALID_ARGUMENT, "topology '",
              name, "' with ", args.num_options,
              " options is not known; there is that of MYDEV_DRIVER alone, without a "
              "name or options");
  args.topology = &Platform::get().topology();
}
MYDEV_PJRT_GIVE_BYTES(PJRT_TopologyDescription_Serialize, serialized_topology, serialized_topology());
MYDEV_PJRT_ENTRY(PJRT_TopologyDescription_Deserialize, topology) {
  MYDEV_CHECK(text_of(args.serialized_topology, args.serialized_topology_size) == serialized_topology(),
              MYDEV_INVALID_ARGUMENT, "these ", args.serialized_topology_size, " bytes are no topology of ",
              Platform::get().version(), ", or have other devices than this process");
  args.topology = &Platform::get().topology();
}
MYDEV_PJRT_GIVE(PJRT_TopologyDescription_Fingerprint, fingerprint, Platform::get().fingerprint());

}  // namespace mydev::pjrt
