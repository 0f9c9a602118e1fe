// Entries of compiling, and of executables.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "pjrt/api/entries.h"
#include "pjrt/base/arguments.h"
#include "pjrt/buffer/submission.h"
#include "pjrt/executable/cost.h"
#include "pjrt/executable/executable.h"
#include "pjrt/python/python_entries.h"

namespace mydev::pjrt {

namespace {

const ExecutableInfo& info_of(const PJRT_Executable* executable) {
  return *required(executable, "the executable").info;
}
PJRT_LoadedExecutable& loaded(PJRT_LoadedExecutable* executable) {
  return required(executable, "the executable");
}

// Gives the client bytes that it owns, with their deleter.
template <typename Owner>
void give_bytes(std::string bytes, const char*& out_data, size_t& out_size, Owner*& out_owner,
                void (*&out_deleter)(Owner*)) {
  auto* owned = new std::string(std::move(bytes));
  give_text(*owned, out_data, out_size);
  out_owner = reinterpret_cast<Owner*>(owned);
  out_deleter = [](Owner* owner) { delete reinterpret_cast<std::string*>(owner); };
}

// --- compiling -------------------------------------------------------------------------------------------------------

void compile(PJRT_Client_Compile_Args& args) {
  const PJRT_Program& program = required(args.program, "the program");
  check_arguments("PJRT_Program", &program, MYDEV_PJRT_END_OF(PJRT_Program, format_size));
  ProgramSource source{std::string(text_of(program.format, program.format_size)),
                       std::string(text_of(program.code, program.code_size)),
                       std::string(text_of(args.compile_options, args.compile_options_size))};
  args.executable = new PJRT_LoadedExecutable(required(args.client, "the client").platform, std::move(source));
}

void load_serialized(PJRT_Executable_DeserializeAndLoad_Args& args) {
  ProgramSource source = deserialize(text_of(args.serialized_executable, args.serialized_executable_size));
  if (MYDEV_PJRT_HAS(args, overridden_serialized_compile_options_size) &&
      args.overridden_serialized_compile_options != nullptr) {
    source.options =
        text_of(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size);
  }
  prepare_to_load();
  args.loaded_executable = new PJRT_LoadedExecutable(required(args.client, "the client").platform, std::move(source));
}

// --- executables -----------------------------------------------------------------------------------------------------

void destroy(PJRT_Executable_Destroy_Args& args) {
  delete args.executable;
}
void get_name(PJRT_Executable_Name_Args& args) {
  give_text(info_of(args.executable).module->description().name, args.executable_name, args.executable_name_size);
}
void get_num_replicas(PJRT_Executable_NumReplicas_Args& args) {
  args.num_replicas = static_cast<size_t>(info_of(args.executable).options.num_replicas);
}
void get_num_partitions(PJRT_Executable_NumPartitions_Args& args) {
  args.num_partitions = static_cast<size_t>(info_of(args.executable).options.num_partitions);
}
void get_num_outputs(PJRT_Executable_NumOutputs_Args& args) {
  args.num_outputs = info_of(args.executable).output_types.size();
}
void get_code_size(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) {
  args.size_in_bytes = info_of(args.executable).module->description().memory.code;
}
// Gives the costs by XLA's names.
void get_cost_analysis(PJRT_Executable_GetCostAnalysis_Args& args) {
  std::vector<PJRT_NamedValue>& properties = required(args.executable, "the executable").cost;
  const Cost cost = cost_of(*info_of(args.executable).module->program());
  properties.clear();
  const auto add = [&properties](std::string_view name, double value) {
    PJRT_NamedValue property{};
    property.struct_size = sizeof property;
    give_text(name, property.name, property.name_size);
    property.type = PJRT_NamedValue_kFloat;
    property.float_value = static_cast<float>(value);
    property.value_size = 1;
    properties.push_back(property);
  };
  add("flops", cost.flops);
  add("transcendentals", cost.transcendentals);
  add("bytes accessed", cost.bytes);
  args.num_properties = properties.size();
  args.properties = properties.data();
}
void get_output_types(PJRT_Executable_OutputElementTypes_Args& args) {
  const ExecutableInfo& info = info_of(args.executable);
  args.output_types = const_cast<PJRT_Buffer_Type*>(info.output_types.data());
  args.num_output_types = info.output_types.size();
}
void get_output_dimensions(PJRT_Executable_OutputDimensions_Args& args) {
  const ExecutableInfo& info = info_of(args.executable);
  args.num_outputs = info.output_ranks.size();
  args.dims = info.output_sizes.data();
  args.dim_sizes = info.output_ranks.data();
}
void get_output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  const ExecutableInfo& info = info_of(args.executable);
  args.num_outputs = info.output_types.size();
  args.memory_kinds = info.output_memory_kinds.data();
  args.memory_kind_sizes = info.output_memory_kinds.sizes();
}
void get_parameter_memory_kinds(PJRT_Executable_ParameterMemoryKinds_Args& args) {
  const ExecutableInfo& info = info_of(args.executable);
  args.num_parameters = info.module->description().parameters.size();
  args.memory_kinds = info.parameter_memory_kinds.data();
  args.memory_kind_sizes = info.parameter_memory_kinds.sizes();
}
void get_program(PJRT_Executable_OptimizedProgram_Args& args) {
  const ExecutableInfo& info = info_of(args.executable);
  PJRT_Program& program = required(args.program, "the program");
  give_text(info.source.format, program.format, program.format_size);
  const std::optional<std::string> text = info.module->text();
  const std::string& code = text ? *text : info.source.code;
  if (program.code == nullptr) {
    program.code_size = code.size();
    return;
  }
  MYDEV_CHECK(program.code_size >= code.size(), MYDEV_INVALID_ARGUMENT, "the program has ", code.size(),
              " bytes, and there is room for ", program.code_size);
  std::memcpy(program.code, code.data(), code.size());
  program.code_size = code.size();
}
void serialize_executable(PJRT_Executable_Serialize_Args& args) {
  give_bytes(serialize(info_of(args.executable)), args.serialized_bytes, args.serialized_bytes_size,
             args.serialized_executable, args.serialized_executable_deleter);
}
void get_compile_options(PJRT_Executable_GetCompileOptions_Args& args) {
  give_bytes(info_of(args.executable).source.options, args.serialized_bytes, args.serialized_bytes_size,
             args.serialized_compile_options, args.serialized_compile_options_deleter);
}
void get_fingerprint(PJRT_Executable_Fingerprint_Args& args) {
  give_text(info_of(args.executable).fingerprint, args.executable_fingerprint, args.executable_fingerprint_size);
}

int64_t bytes_of(const std::vector<ValueDescription>& values, bool on_host) {
  int64_t bytes = 0;
  for (const ValueDescription& value : values) {
    if ((value.memory != MemoryKind::kDevice) == on_host) bytes += static_cast<int64_t>(value.shape->bytes);
  }
  return bytes;
}

void get_memory_statistics(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  const ModuleDescription& module = info_of(args.executable).module->description();
  args.generated_code_size_in_bytes = module.memory.code;
  args.argument_size_in_bytes = bytes_of(module.parameters, /*on_host=*/false);
  args.output_size_in_bytes = bytes_of(module.results, /*on_host=*/false);
  args.alias_size_in_bytes = 0;
  for (size_t i = 0; i < module.results.size(); ++i) {
    const std::optional<size_t> parameter = module.in_place_of[i];
    if (!parameter || !module.parameters[*parameter].donated) continue;
    args.alias_size_in_bytes += static_cast<int64_t>(module.results[i].shape->bytes);
  }
  args.temp_size_in_bytes = module.memory.temporaries;
  args.host_generated_code_size_in_bytes = 0;
  args.host_argument_size_in_bytes = bytes_of(module.parameters, /*on_host=*/true);
  args.host_output_size_in_bytes = bytes_of(module.results, /*on_host=*/true);
  args.host_alias_size_in_bytes = 0;
  args.host_temp_size_in_bytes = 0;
  const int64_t total = args.argument_size_in_bytes + args.output_size_in_bytes - args.alias_size_in_bytes +
                        args.temp_size_in_bytes + args.generated_code_size_in_bytes;
  if (MYDEV_PJRT_HAS(args, peak_memory_in_bytes)) args.peak_memory_in_bytes = total;
  if (MYDEV_PJRT_HAS(args, total_size_in_bytes)) args.total_size_in_bytes = total;
}

// --- loaded executables ----------------------------------------------------------------------------------------------

void destroy_loaded(PJRT_LoadedExecutable_Destroy_Args& args) {
  delete args.executable;
}
void get_executable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  args.executable = new PJRT_Executable{loaded(args.loaded_executable).info, {}, {}, {}};
}
void get_devices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
  const std::vector<PJRT_Device*>& devices = loaded(args.executable).device_handles;
  args.addressable_devices = devices.data();
  args.num_addressable_devices = devices.size();
}
void get_logical_ids(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& args) {
  std::vector<PJRT_LogicalDeviceIds>& ids = loaded(args.executable).logical_ids;
  args.addressable_device_logical_ids = ids.data();
  args.num_addressable_device_logical_ids = ids.size();
}
// Gives no bytes for a portable executable.
void get_device_assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  const auto& assignment = loaded(args.executable).device_assignment();
  give_bytes(assignment.empty() ? std::string() : serialize_device_assignment(assignment), args.serialized_bytes,
             args.serialized_bytes_size, args.serialized_device_assignment, args.serialized_device_assignment_deleter);
}
void delete_loaded(PJRT_LoadedExecutable_Delete_Args& args) {
  loaded(args.executable).drop();
}
void is_loaded_deleted(PJRT_LoadedExecutable_IsDeleted_Args& args) {
  args.is_deleted = loaded(args.executable).deleted();
}
void get_loaded_fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  give_text(loaded(args.executable).info->fingerprint, args.executable_fingerprint, args.executable_fingerprint_size);
}

// Contexts carry what FFI handlers ask for; there is nothing in them yet.
void create_context(PJRT_ExecuteContext_Create_Args& args) {
  args.context = reinterpret_cast<PJRT_ExecuteContext*>(new char());
}
void destroy_context(PJRT_ExecuteContext_Destroy_Args& args) {
  delete reinterpret_cast<char*>(args.context);
}

}  // namespace

void add_executable_entries(PJRT_Api& api) {
  MYDEV_PJRT_ENTRY(api, PJRT_Client_Compile, compile, executable);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_DeserializeAndLoad, load_serialized, loaded_executable);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_Destroy, destroy, executable);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_Name, get_name, executable_name_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_NumReplicas, get_num_replicas, num_replicas);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_NumPartitions, get_num_partitions, num_partitions);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_NumOutputs, get_num_outputs, num_outputs);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_SizeOfGeneratedCodeInBytes, get_code_size, size_in_bytes);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_GetCostAnalysis, get_cost_analysis, properties);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_OutputElementTypes, get_output_types, num_output_types);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_OutputDimensions, get_output_dimensions, dim_sizes);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_OutputMemoryKinds, get_output_memory_kinds, memory_kind_sizes);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_ParameterMemoryKinds, get_parameter_memory_kinds, memory_kind_sizes);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_OptimizedProgram, get_program, program);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_Serialize, serialize_executable, serialized_executable_deleter);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_GetCompileOptions, get_compile_options, serialized_compile_options_deleter);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_Fingerprint, get_fingerprint, executable_fingerprint_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Executable_GetCompiledMemoryStats, get_memory_statistics, host_temp_size_in_bytes);
}

void add_loaded_executable_entries(PJRT_Api& api) {
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_Destroy, destroy_loaded, executable);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_GetExecutable, get_executable, executable);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_AddressableDevices, get_devices, num_addressable_devices);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_AddressableDeviceLogicalIds, get_logical_ids,
                   num_addressable_device_logical_ids);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_GetDeviceAssignment, get_device_assignment,
                   serialized_device_assignment_deleter);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_Delete, delete_loaded, executable);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_IsDeleted, is_loaded_deleted, is_deleted);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_Fingerprint, get_loaded_fingerprint, executable_fingerprint_size);
  MYDEV_PJRT_ENTRY(api, PJRT_LoadedExecutable_Execute, execute, output_lists);
  MYDEV_PJRT_ENTRY(api, PJRT_ExecuteContext_Create, create_context, context);
  MYDEV_PJRT_ENTRY(api, PJRT_ExecuteContext_Destroy, destroy_context, context);
}

}  // namespace mydev::pjrt
