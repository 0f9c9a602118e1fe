// Entries of the extensions: layouts, memory descriptions, shardings, transfers between processes.
#include <array>
#include <string>

#include "pjrt/api/entries.h"
#include "pjrt/base/arguments.h"
#include "pjrt/buffer/transfer.h"
#include "pjrt/c_api/extensions.h"
#include "pjrt/device/platform.h"
#include "pjrt/executable/executable.h"

struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace mydev::pjrt {

namespace {

// --- layouts: all are dense and row-major ----------------------------------------------------------------------------

PJRT_Layouts_MemoryLayout* row_major(size_t rank) {
  std::string text = "{";
  for (size_t d = rank; d > 0; --d) text += std::to_string(d - 1) + (d == 1 ? "" : ",");
  return new PJRT_Layouts_MemoryLayout{text + "}"};
}

void destroy_layout(PJRT_Layouts_MemoryLayout_Destroy_Args& args) {
  delete args.layout;
}
void serialize_layout(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
  auto* text = new std::string(required(args.layout, "the layout").text);
  give_text(*text, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_layout = reinterpret_cast<PJRT_Layouts_SerializedLayout*>(text);
  args.serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout* owner) {
    delete reinterpret_cast<std::string*>(owner);
  };
}
void get_default_layout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args) {
  args.layout = row_major(args.num_dims);
}
void get_default_layout_of_topology(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args& args) {
  args.layout = row_major(args.num_dims);
}
void get_buffer_layout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
  args.layout = row_major(required(args.buffer, "the buffer").shape->sizes.size());
}

// The executable owns the arrays, the client owns the layouts in them.
PJRT_Layouts_MemoryLayout** layouts_of(std::span<const ValueDescription> values, std::vector<void*>& array) {
  array.clear();
  for (const ValueDescription& value : values) array.push_back(row_major(value.shape->sizes.size()));
  return reinterpret_cast<PJRT_Layouts_MemoryLayout**>(array.data());
}
void get_output_layouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  PJRT_Executable& executable = required(args.executable, "the executable");
  args.layouts = layouts_of(executable.info->module->description().results, executable.output_layouts);
  args.num_outputs = executable.output_layouts.size();
}
void get_parameter_layouts(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
  PJRT_Executable& executable = required(args.executable, "the executable");
  args.layouts = layouts_of(executable.info->module->description().parameters, executable.parameter_layouts);
  args.num_parameters = executable.parameter_layouts.size();
}

// --- memory descriptions ---------------------------------------------------------------------------------------------

void get_memory_descriptions(PJRT_DeviceDescription_MemoryDescriptions_Args& args) {
  static constexpr std::array<PJRT_MemoryDescription, kMemoryKinds> descriptions = {
      {{MemoryKind::kDevice}, {MemoryKind::kPinnedHost}, {MemoryKind::kUnpinnedHost}}};
  static constexpr std::array<const PJRT_MemoryDescription*, kMemoryKinds> handles = {
      &descriptions[0], &descriptions[1], &descriptions[2]};
  args.memory_descriptions = handles.data();
  args.num_memory_descriptions = handles.size();
  args.default_memory_index = 0;
}
void get_described_kind(PJRT_MemoryDescription_Kind_Args& args) {
  const MemoryKind kind = required(args.memory_description, "the memory description").kind;
  give_text(kMemoryKindNames[static_cast<size_t>(kind)], args.kind, args.kind_size);
  args.kind_id = static_cast<int>(kind);
}

// --- shardings -------------------------------------------------------------------------------------------------------

void get_parameter_shardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args) {
  const PJRT_Executable& executable = required(args.executable, "the executable");
  args.num_parameters = executable.info->module->description().parameters.size();
  args.shardings = executable.info->parameter_shardings.data();
  args.sharding_sizes = executable.info->parameter_shardings.sizes();
}
void get_output_shardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args) {
  const PJRT_Executable& executable = required(args.executable, "the executable");
  args.num_outputs = executable.info->module->description().results.size();
  args.shardings = executable.info->output_shardings.data();
  args.sharding_sizes = executable.info->output_shardings.sizes();
}

// --- transfers between processes -------------------------------------------------------------------------------------

void send_buffers(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args& args) {
  const Platform& platform = required(args.client, "the client").platform;
  std::vector<SharedCompletion> sent;
  sent.reserve(args.num_buffers);
  for (size_t i = 0; i < args.num_buffers; ++i) {
    sent.push_back(send(required(args.buffers[i], "the buffer"), platform.device(args.dst_global_device_ids[i]),
                        static_cast<uint64_t>(args.transfer_keys[i])));
  }
  for (size_t i = 0; i < sent.size(); ++i) args.send_events[i] = new PJRT_Event{std::move(sent[i])};
}

void receive_buffers(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args& args) {
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

void make_receivers(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args&) {
  raise(MYDEV_UNIMPLEMENTED,
        "arrays of other processes are received by PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers");
}

PJRT_Layouts_Extension make_layouts() {
  PJRT_Layouts_Extension table{.base = {sizeof table, PJRT_Extension_Type_Layouts, nullptr}};
  MYDEV_PJRT_ENTRY(table, PJRT_Layouts_MemoryLayout_Destroy, destroy_layout, layout);
  MYDEV_PJRT_ENTRY(table, PJRT_Layouts_MemoryLayout_Serialize, serialize_layout, serialized_layout_deleter);
  MYDEV_PJRT_ENTRY(table, PJRT_Layouts_PJRT_Client_GetDefaultLayout, get_default_layout, layout);
  MYDEV_PJRT_ENTRY(table, PJRT_Layouts_PJRT_Buffer_MemoryLayout, get_buffer_layout, layout);
  MYDEV_PJRT_ENTRY(table, PJRT_Layouts_PJRT_Topology_GetDefaultLayout, get_default_layout_of_topology, layout);
  MYDEV_PJRT_ENTRY(table, PJRT_Layouts_PJRT_Executable_GetOutputLayouts, get_output_layouts, layouts);
  MYDEV_PJRT_ENTRY(table, PJRT_Layouts_PJRT_Executable_GetParameterLayouts, get_parameter_layouts, layouts);
  return table;
}

PJRT_MemoryDescriptions_Extension make_memory_descriptions(PJRT_Extension_Base* next) {
  PJRT_MemoryDescriptions_Extension table{.base = {sizeof table, PJRT_Extension_Type_MemoryDescriptions, next}};
  MYDEV_PJRT_ENTRY(table, PJRT_DeviceDescription_MemoryDescriptions, get_memory_descriptions, default_memory_index);
  MYDEV_PJRT_ENTRY(table, PJRT_MemoryDescription_Kind, get_described_kind, kind_id);
  return table;
}

PJRT_CrossHostTransfers_Extension make_transfers(PJRT_Extension_Base* next) {
  PJRT_CrossHostTransfers_Extension table{.base = {sizeof table, PJRT_Extension_Type_CrossHostTransfers, next}};
  MYDEV_PJRT_ENTRY(table, PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers, make_receivers, extension_start);
  table.PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice = [](void*) {};  // no receiver is made that it could be asked for
  MYDEV_PJRT_ENTRY(table, PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers, receive_buffers, buffers);
  MYDEV_PJRT_ENTRY(table, PJRT_Transfers_PJRT_Client_CrossHostSendBuffers, send_buffers, send_events);
  return table;
}

PJRT_Shardings_Extension make_shardings(PJRT_Extension_Base* next) {
  PJRT_Shardings_Extension table{.base = {sizeof table, PJRT_Extension_Type_Shardings, next}};
  MYDEV_PJRT_ENTRY(table, PJRT_Shardings_PJRT_Executable_ParameterShardings, get_parameter_shardings, sharding_sizes);
  MYDEV_PJRT_ENTRY(table, PJRT_Shardings_PJRT_Executable_OutputShardings, get_output_shardings, sharding_sizes);
  return table;
}

}  // namespace

PJRT_Extension_Base* extensions() noexcept {
  static PJRT_Layouts_Extension layouts = make_layouts();
  static PJRT_MemoryDescriptions_Extension memories = make_memory_descriptions(&layouts.base);
  static PJRT_Shardings_Extension shardings = make_shardings(&memories.base);
  static PJRT_CrossHostTransfers_Extension transfers = make_transfers(&shardings.base);
  static PJRT_Extension_Base* profiler = profiler_extension(&transfers.base);
  return profiler;
}

}  // namespace mydev::pjrt
