// Entries of the extensions: layouts, memory descriptions, shardings, transfers between processes.
#include <array>
#include <string>

#include "pjrt/api/entries.h"
#include "pjrt/buffer/transfer.h"
#include "pjrt/c_api/extensions.h"
#include "pjrt/device/platform.h"
#include "pjrt/executable/executable.h"

struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace mydev::pjrt {

namespace {

PJRT_Layouts_MemoryLayout* row_major(size_t rank) {
  std::string text = "{";
  for (size_t d = rank; d > 0; --d) text += std::to_string(d - 1) + (d == 1 ? "" : ",");
  return new PJRT_Layouts_MemoryLayout{text + "}"};
}

// The executable owns the arrays, the client owns the layouts in them.
PJRT_Layouts_MemoryLayout** layouts_of(std::span<const ValueDescription> values, std::vector<void*>& array) {
  array.clear();
  for (const ValueDescription& value : values) array.push_back(row_major(value.shape->sizes.size()));
  return reinterpret_cast<PJRT_Layouts_MemoryLayout**>(array.data());
}

}  // namespace

// --- layouts: all are dense and row-major ----------------------------------------------------------------------------

MYDEV_PJRT_DO(PJRT_Layouts_MemoryLayout_Destroy, layout, delete args.layout);
MYDEV_PJRT_GIVE_BYTES(PJRT_Layouts_MemoryLayout_Serialize, serialized_layout, required(args.layout, "the layout").text);
MYDEV_PJRT_GIVE(PJRT_Layouts_PJRT_Client_GetDefaultLayout, layout, row_major(args.num_dims));
MYDEV_PJRT_GIVE(PJRT_Layouts_PJRT_Topology_GetDefaultLayout, layout, row_major(args.num_dims));
MYDEV_PJRT_GIVE(PJRT_Layouts_PJRT_Buffer_MemoryLayout, layout,
                row_major(required(args.buffer, "the buffer").shape->sizes.size()));

MYDEV_PJRT_ENTRY(PJRT_Layouts_PJRT_Executable_GetOutputLayouts, layouts) {
  PJRT_Executable& executable = required(args.executable, "the executable");
  args.layouts = layouts_of(executable.info->module->description().results, executable.output_layouts);
  args.num_outputs = executable.output_layouts.size();
}
MYDEV_PJRT_ENTRY(PJRT_Layouts_PJRT_Executable_GetParameterLayouts, layouts) {
  PJRT_Executable& executable = required(args.executable, "the executable");
  args.layouts = layouts_of(executable.info->module->description().parameters, executable.parameter_layouts);
  args.num_parameters = executable.parameter_layouts.size();
}

// --- memory descriptions ---------------------------------------------------------------------------------------------

MYDEV_PJRT_ENTRY(PJRT_DeviceDescription_MemoryDescriptions, default_memory_index) {
  static constexpr std::array<PJRT_MemoryDescription, kMemoryKinds> descriptions = {
      {{MemoryKind::kDevice}, {MemoryKind::kPinnedHost}, {MemoryKind::kUnpinnedHost}}};
  static constexpr std::array<const PJRT_MemoryDescription*, kMemoryKinds> handles = {
      &descriptions[0], &descriptions[1], &descriptions[2]};
  args.memory_descriptions = handles.data();
  args.num_memory_descriptions = handles.size();
  args.default_memory_index = 0;
}
MYDEV_PJRT_ENTRY(PJRT_MemoryDescription_Kind, kind_id) {
  const MemoryKind kind = required(args.memory_description, "the memory description").kind;
  give_text(kMemoryKindNames[static_cast<size_t>(kind)], args.kind, args.kind_size);
  args.kind_id = static_cast<int>(kind);
}

// --- shardings -------------------------------------------------------------------------------------------------------

MYDEV_PJRT_ENTRY(PJRT_Shardings_PJRT_Executable_ParameterShardings, sharding_sizes) {
  const PJRT_Executable& executable = required(args.executable, "the executable");
  args.num_parameters = executable.info->module->description().parameters.size();
  args.shardings = executable.info->parameter_shardings.data();
  args.sharding_sizes = executable.info->parameter_shardings.sizes();
}
MYDEV_PJRT_ENTRY(PJRT_Shardings_PJRT_Executable_OutputShardings, sharding_sizes) {
  const PJRT_Executable& executable = required(args.executable, "the executable");
  args.num_outputs = executable.info->module->description().results.size();
  args.shardings = executable.info->output_shardings.data();
  args.sharding_sizes = executable.info->output_shardings.sizes();
}

// --- transfers between processes -------------------------------------------------------------------------------------

MYDEV_PJRT_ENTRY(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers, send_events) {
  const Platform& platform = required(args.client, "the client").platform;
  std::vector<SharedCompletion> sent;
  sent.reserve(args.num_buffers);
  for (size_t i = 0; i < args.num_buffers; ++i) {
    sent.push_back(send(required(args.buffers[i], "the buffer"), platform.device(args.dst_global_device_ids[i]),
                        static_cast<uint64_t>(args.transfer_keys[i])));
  }
  for (size_t i = 0; i < sent.size(); ++i) args.send_events[i] = new PJRT_Event{std::move(sent[i])};
}

MYDEV_PJRT_ENTRY(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers, buffers) {
  const Platform& platform = required(args.client, "the client").platform;
  PJRT_Memory& memory = chosen_memory(args.device, nullptr);
  std::vector<std::unique_ptr<PJRT_Buffer>> received;
  received.reserve(args.num_shapes);
  for (size_t i = 0; i < args.num_shapes; ++i) {
    SharedShape shape =
        make_shape(element_type(args.element_types[i]), std::span(args.num_dims[i], args.shape_num_dims[i]));
    check_dense(args.layouts == nullptr ? nullptr : args.layouts[i], *shape);
    received.push_back(receive(memory, std::move(shape), platform.device(args.src_global_device_ids[i]),
                               static_cast<uint64_t>(args.transfer_keys[i])));
  }
  for (size_t i = 0; i < received.size(); ++i) args.buffers[i] = received[i].release();
}

MYDEV_PJRT_ENTRY(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers, extension_start) {
  raise(MYDEV_UNIMPLEMENTED,
        "arrays of other processes are received by PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers");
}

// --- the chain -------------------------------------------------------------------------------------------------------

PJRT_Extension_Base* extensions() noexcept {
  // The type of each slot chooses its entry_point.
  static PJRT_Layouts_Extension layouts = {PJRT_Extension_Base{sizeof layouts, PJRT_Extension_Type_Layouts, nullptr},
                                           entry_point,
                                           entry_point,
                                           entry_point,
                                           entry_point,
                                           entry_point,
                                           entry_point,
                                           entry_point};
  static PJRT_MemoryDescriptions_Extension memories = {
      PJRT_Extension_Base{sizeof memories, PJRT_Extension_Type_MemoryDescriptions, &layouts.base}, entry_point,
      entry_point};
  static PJRT_Shardings_Extension shardings = {
      PJRT_Extension_Base{sizeof shardings, PJRT_Extension_Type_Shardings, &memories.base}, entry_point, entry_point};
  // No receiver is made that a copy to a remote device could be asked for.
  static PJRT_CrossHostTransfers_Extension transfers = {
      PJRT_Extension_Base{sizeof transfers, PJRT_Extension_Type_CrossHostTransfers, &shardings.base}, entry_point,
      [](void*) {}, entry_point, entry_point};
  return profiler_extension(&transfers.base);
}

}  // namespace mydev::pjrt
