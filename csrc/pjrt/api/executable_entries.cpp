// Entries of compiling, and of executables.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "pjrt/api/entries.h"
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

int64_t bytes_of(const std::vector<ValueDescription>& values, bool on_host) {
  int64_t bytes = 0;
  for (const ValueDescription& value : values) {
    if ((value.memory != MemoryKind::kDevice) == on_host) bytes += static_cast<int64_t>(value.shape->bytes);
  }
  return bytes;
}

}  // namespace

// --- compiling -------------------------------------------------------------------------------------------------------

MYDEV_PJRT_ENTRY(PJRT_Client_Compile, executable) {
  const PJRT_Program& program = required(args.program, "the program");
  check_arguments("PJRT_Program", &program, MYDEV_PJRT_END_OF(PJRT_Program, format_size));
  ProgramSource source{std::string(text_of(program.format, program.format_size)),
                       std::string(text_of(program.code, program.code_size)),
                       std::string(text_of(args.compile_options, args.compile_options_size))};
  args.executable = new PJRT_LoadedExecutable(required(args.client, "the client").platform, std::move(source));
}

MYDEV_PJRT_ENTRY(PJRT_Executable_DeserializeAndLoad, loaded_executable) {
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

MYDEV_PJRT_DO(PJRT_Executable_Destroy, executable, delete args.executable);
MYDEV_PJRT_GIVE_TEXT(PJRT_Executable_Name, executable_name, info_of(args.executable).module->description().name);
MYDEV_PJRT_GIVE(PJRT_Executable_NumReplicas, num_replicas,
                static_cast<size_t>(info_of(args.executable).options.num_replicas));
MYDEV_PJRT_GIVE(PJRT_Executable_NumPartitions, num_partitions,
                static_cast<size_t>(info_of(args.executable).options.num_partitions));
MYDEV_PJRT_GIVE(PJRT_Executable_NumOutputs, num_outputs, info_of(args.executable).output_types.size());
MYDEV_PJRT_GIVE(PJRT_Executable_SizeOfGeneratedCodeInBytes, size_in_bytes,
                info_of(args.executable).module->description().memory.code);
// Gives the costs by XLA's names.
MYDEV_PJRT_ENTRY(PJRT_Executable_GetCostAnalysis, properties) {
  std::vector<PJRT_NamedValue>& properties = required(args.executable, "the executable").cost;
  const Cost cost = cost_of(*info_of(args.executable).module->program());
  properties.clear();
  const auto add = [&properties](std::string_view name, double value) {
    properties.push_back(named_value(name, PJRT_NamedValue_kFloat));
    properties.back().float_value = static_cast<float>(value);
  };
  add("flops", cost.flops);
  add("transcendentals", cost.transcendentals);
  add("bytes accessed", cost.bytes);
  give_list(properties, args.properties, args.num_properties);
}
MYDEV_PJRT_ENTRY(PJRT_Executable_OutputElementTypes, num_output_types) {
  const ExecutableInfo& info = info_of(args.executable);
  args.output_types = const_cast<PJRT_Buffer_Type*>(info.output_types.data());
  args.num_output_types = info.output_types.size();
}
MYDEV_PJRT_ENTRY(PJRT_Executable_OutputDimensions, dim_sizes) {
  const ExecutableInfo& info = info_of(args.executable);
  args.num_outputs = info.output_ranks.size();
  args.dims = info.output_sizes.data();
  args.dim_sizes = info.output_ranks.data();
}
MYDEV_PJRT_ENTRY(PJRT_Executable_OutputMemoryKinds, memory_kind_sizes) {
  const ExecutableInfo& info = info_of(args.executable);
  args.num_outputs = info.output_types.size();
  args.memory_kinds = info.output_memory_kinds.data();
  args.memory_kind_sizes = info.output_memory_kinds.sizes();
}
MYDEV_PJRT_ENTRY(PJRT_Executable_ParameterMemoryKinds, memory_kind_sizes) {
  const ExecutableInfo& info = info_of(args.executable);
  args.num_parameters = info.module->description().parameters.size();
  args.memory_kinds = info.parameter_memory_kinds.data();
  args.memory_kind_sizes = info.parameter_memory_kinds.sizes();
}
MYDEV_PJRT_ENTRY(PJRT_Executable_OptimizedProgram, program) {
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
MYDEV_PJRT_GIVE_BYTES(PJRT_Executable_Serialize, serialized_executable, serialize(info_of(args.executable)));
MYDEV_PJRT_GIVE_BYTES(PJRT_Executable_GetCompileOptions, serialized_compile_options,
                      info_of(args.executable).source.options);
MYDEV_PJRT_GIVE_TEXT(PJRT_Executable_Fingerprint, executable_fingerprint, info_of(args.executable).fingerprint);

MYDEV_PJRT_ENTRY(PJRT_Executable_GetCompiledMemoryStats, host_temp_size_in_bytes) {
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

MYDEV_PJRT_DO(PJRT_LoadedExecutable_Destroy, executable, delete args.executable);
MYDEV_PJRT_GIVE(PJRT_LoadedExecutable_GetExecutable, executable,
                new PJRT_Executable{loaded(args.loaded_executable).info, {}, {}, {}});
MYDEV_PJRT_GIVE_LIST(PJRT_LoadedExecutable_AddressableDevices, addressable_devices,
                     loaded(args.executable).device_handles);
MYDEV_PJRT_GIVE_LIST(PJRT_LoadedExecutable_AddressableDeviceLogicalIds, addressable_device_logical_ids,
                     loaded(args.executable).logical_ids);
// Gives no bytes for a portable executable.
MYDEV_PJRT_ENTRY(PJRT_LoadedExecutable_GetDeviceAssignment, serialized_device_assignment_deleter) {
  const auto& assignment = loaded(args.executable).device_assignment();
  give_bytes(assignment.empty() ? std::string() : serialize_device_assignment(assignment), args.serialized_bytes,
             args.serialized_bytes_size, args.serialized_device_assignment, args.serialized_device_assignment_deleter);
}
MYDEV_PJRT_DO(PJRT_LoadedExecutable_Delete, executable, loaded(args.executable).drop());
MYDEV_PJRT_GIVE(PJRT_LoadedExecutable_IsDeleted, is_deleted, loaded(args.executable).deleted());
MYDEV_PJRT_GIVE_TEXT(PJRT_LoadedExecutable_Fingerprint, executable_fingerprint,
                     loaded(args.executable).info->fingerprint);

MYDEV_PJRT_DO(PJRT_LoadedExecutable_Execute, output_lists, execute(args));

// Contexts carry what FFI handlers ask for; there is nothing in them yet.
MYDEV_PJRT_GIVE(PJRT_ExecuteContext_Create, context, reinterpret_cast<PJRT_ExecuteContext*>(new char()));
MYDEV_PJRT_DO(PJRT_ExecuteContext_Destroy, context, delete reinterpret_cast<char*>(args.context));

}  // namespace mydev::pjrt
