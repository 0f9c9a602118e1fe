// Entries of devices, memories and topologies.
#include <string>
#include <utility>

#include "pjrt/api/entries.h"
#include "pjrt/base/arguments.h"
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

void get_id(PJRT_DeviceDescription_Id_Args& args) {
  args.id = description_of(args.device_description).id;
}
void get_process_index(PJRT_DeviceDescription_ProcessIndex_Args& args) {
  args.process_index = description_of(args.device_description).process;
}
void get_description_attributes(PJRT_DeviceDescription_Attributes_Args& args) {
  const auto& attributes = description_of(args.device_description).attributes;
  args.num_attributes = attributes.size();
  args.attributes = attributes.data();
}
void get_kind(PJRT_DeviceDescription_Kind_Args& args) {
  give_text(description_of(args.device_description).kind, args.device_kind, args.device_kind_size);
}
void get_debug_string(PJRT_DeviceDescription_DebugString_Args& args) {
  give_text(description_of(args.device_description).debug_string, args.debug_string, args.debug_string_size);
}
void get_string(PJRT_DeviceDescription_ToString_Args& args) {
  give_text(description_of(args.device_description).to_string, args.to_string, args.to_string_size);
}

void get_description(PJRT_Device_GetDescription_Args& args) {
  args.device_description = &device_of(args.device).description;
}
void is_addressable(PJRT_Device_IsAddressable_Args& args) {
  args.is_addressable = Platform::get().is_local(device_of(args.device));
}
// Clients ask for these of devices of other processes too, and take an error for a reason to end the process.
void get_local_hardware_id(PJRT_Device_LocalHardwareId_Args& args) {
  PJRT_Device& device = device_of(args.device);
  const Platform& platform = Platform::get();
  args.local_hardware_id = platform.is_local(device) ? platform.local(device).device.index : -1;
}
void get_memories(PJRT_Device_AddressableMemories_Args& args) {
  PJRT_Device& device = device_of(args.device);
  const Platform& platform = Platform::get();
  args.memories = platform.is_local(device) ? platform.local(device).memory_handles.data() : nullptr;
  args.num_memories = platform.is_local(device) ? kMemoryKinds : 0;
}
void get_default_memory(PJRT_Device_DefaultMemory_Args& args) {
  args.memory = &local_device_of(args.device).default_memory();
}
// Clients take an error here for a reason to end the process, and call the deleter where there is one.
void get_device_attributes(PJRT_Device_GetAttributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
  args.device_attributes = nullptr;
  args.attributes_deleter = [](void*) {};
}

void get_memory_statistics(PJRT_Device_MemoryStats_Args& args) {
  const int index = local_device_of(args.device).device.index;
  const AllocatorStats stats = allocator_stats(index);
  uint64_t free_bytes = 0, total_bytes = 0;
  memory_info(index, free_bytes, total_bytes);
  const auto limit = static_cast<int64_t>(static_cast<double>(total_bytes) * memory_fraction(index));
  const auto give = [&args](int64_t value, int64_t& out_value, bool& out_is_set) {
    // A caller with an older version has no field there.
    if (reinterpret_cast<const char*>(&out_is_set + 1) - reinterpret_cast<const char*>(&args) >
        static_cast<ptrdiff_t>(args.struct_size)) {
      return;
    }
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
  const auto not_known = [&args](bool& out_is_set) {
    if (reinterpret_cast<const char*>(&out_is_set + 1) - reinterpret_cast<const char*>(&args) <=
        static_cast<ptrdiff_t>(args.struct_size)) {
      out_is_set = false;
    }
  };
  not_known(args.largest_alloc_size_is_set);
  not_known(args.largest_free_block_bytes_is_set);
}

void get_memory_id(PJRT_Memory_Id_Args& args) {
  args.id = memory_of(args.memory).id;
}
void get_memory_kind(PJRT_Memory_Kind_Args& args) {
  give_text(kMemoryKindNames[static_cast<size_t>(memory_of(args.memory).kind)], args.kind, args.kind_size);
}
void get_memory_kind_id(PJRT_Memory_Kind_Id_Args& args) {
  args.kind_id = static_cast<int>(memory_of(args.memory).kind);
}
void get_memory_debug_string(PJRT_Memory_DebugString_Args& args) {
  give_text(memory_of(args.memory).debug_string, args.debug_string, args.debug_string_size);
}
void get_memory_string(PJRT_Memory_ToString_Args& args) {
  give_text(memory_of(args.memory).to_string, args.to_string, args.to_string_size);
}
void get_devices_of_memory(PJRT_Memory_AddressableByDevices_Args& args) {
  args.devices = &memory_of(args.memory).device->handle;
  args.num_devices = 1;
}

void destroy_topology(PJRT_TopologyDescription_Destroy_Args&) {}  // it is the platform's
void get_topology_name(PJRT_TopologyDescription_PlatformName_Args& args) {
  give_text(device_name(), args.platform_name, args.platform_name_size);
}
void get_topology_version(PJRT_TopologyDescription_PlatformVersion_Args& args) {
  give_text(Platform::get().version(), args.platform_version, args.platform_version_size);
}
void get_device_descriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
  args.descriptions = topology_of(args.topology).descriptions.data();
  args.num_descriptions = topology_of(args.topology).descriptions.size();
}
void get_topology_attributes(PJRT_TopologyDescription_Attributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
}
// There is one topology: that of the devices which this process has.
void create_topology(PJRT_TopologyDescription_Create_Args& args) {
  const std::string_view name = text_of(args.topology_name, args.topology_name_size);
  MYDEV_CHECK((name.empty() || name == device_name()) && args.num_options == 0, MYDEV_INVALID_ARGUMENT, "topology '",
              name, "' with ", args.num_options,
              " options is not known; there is that of MYDEV_DRIVER alone, without a "
              "name or options");
  args.topology = &Platform::get().topology();
}
std::string serialized_topology() {
  WireWriter message;
  message.bytes(1, Platform::get().version());
  message.number(2, Platform::get().fingerprint());
  return std::move(message).take();
}
void serialize_topology(PJRT_TopologyDescription_Serialize_Args& args) {
  auto* bytes = new std::string(serialized_topology());
  give_text(*bytes, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_topology = reinterpret_cast<PJRT_SerializedTopology*>(bytes);
  args.serialized_topology_deleter = [](PJRT_SerializedTopology* owner) {
    delete reinterpret_cast<std::string*>(owner);
  };
}
void deserialize_topology(PJRT_TopologyDescription_Deserialize_Args& args) {
  MYDEV_CHECK(text_of(args.serialized_topology, args.serialized_topology_size) == serialized_topology(),
              MYDEV_INVALID_ARGUMENT, "these ", args.serialized_topology_size, " bytes are no topology of ",
              Platform::get().version(), ", or have other devices than this process");
  args.topology = &Platform::get().topology();
}
void get_topology_fingerprint(PJRT_TopologyDescription_Fingerprint_Args& args) {
  args.fingerprint = Platform::get().fingerprint();
}

}  // namespace

void add_device_entries(PJRT_Api& api) {
  MYDEV_PJRT_ENTRY(api, PJRT_DeviceDescription_Id, get_id, id);
  MYDEV_PJRT_ENTRY(api, PJRT_DeviceDescription_ProcessIndex, get_process_index, process_index);
  MYDEV_PJRT_ENTRY(api, PJRT_DeviceDescription_Attributes, get_description_attributes, attributes);
  MYDEV_PJRT_ENTRY(api, PJRT_DeviceDescription_Kind, get_kind, device_kind_size);
  MYDEV_PJRT_ENTRY(api, PJRT_DeviceDescription_DebugString, get_debug_string, debug_string_size);
  MYDEV_PJRT_ENTRY(api, PJRT_DeviceDescription_ToString, get_string, to_string_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Device_GetDescription, get_description, device_description);
  MYDEV_PJRT_ENTRY(api, PJRT_Device_IsAddressable, is_addressable, is_addressable);
  MYDEV_PJRT_ENTRY(api, PJRT_Device_LocalHardwareId, get_local_hardware_id, local_hardware_id);
  MYDEV_PJRT_ENTRY(api, PJRT_Device_AddressableMemories, get_memories, num_memories);
  MYDEV_PJRT_ENTRY(api, PJRT_Device_DefaultMemory, get_default_memory, memory);
  MYDEV_PJRT_ENTRY(api, PJRT_Device_MemoryStats, get_memory_statistics, bytes_in_use);
  MYDEV_PJRT_ENTRY(api, PJRT_Device_GetAttributes, get_device_attributes, attributes_deleter);
  MYDEV_PJRT_ENTRY(api, PJRT_Memory_Id, get_memory_id, id);
  MYDEV_PJRT_ENTRY(api, PJRT_Memory_Kind, get_memory_kind, kind_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Memory_Kind_Id, get_memory_kind_id, kind_id);
  MYDEV_PJRT_ENTRY(api, PJRT_Memory_DebugString, get_memory_debug_string, debug_string_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Memory_ToString, get_memory_string, to_string_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Memory_AddressableByDevices, get_devices_of_memory, num_devices);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_Create, create_topology, topology);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_Serialize, serialize_topology, serialized_topology_deleter);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_Deserialize, deserialize_topology, topology);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_Destroy, destroy_topology, topology);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_PlatformName, get_topology_name, platform_name_size);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_PlatformVersion, get_topology_version, platform_version_size);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_GetDeviceDescriptions, get_device_descriptions, num_descriptions);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_Attributes, get_topology_attributes, num_attributes);
  MYDEV_PJRT_ENTRY(api, PJRT_TopologyDescription_Fingerprint, get_topology_fingerprint, fingerprint);
}

}  // namespace mydev::pjrt
