#include "opencl_driver/compiler/kernel_modules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "opencl_driver/api/errors.h"
#include "opencl_driver/platform/device_facts.h"

namespace mydev::opencl_driver {

namespace {

// Divisions and roots are those of the host, where the device has them.
constexpr const char* kExactDivision = " -cl-fp32-correctly-rounded-divide-sqrt";

// --- building --------------------------------------------------------------------------------------------------------

class Program {
 public:
  explicit Program(cl_program program) : program_(program) {}
  ~Program() {
    if (program_ != nullptr) cl().clReleaseProgram(program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  cl_program get() const { return program_; }
  cl_program release() { return std::exchange(program_, nullptr); }

 private:
  cl_program program_;
};

std::string build_log(cl_program program, cl_device_id device) {
  size_t bytes = 0;
  if (cl().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS) return "";
  std::string log(bytes, '\0');
  cl().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  log.resize(std::strlen(log.c_str()));
  return log;
}

cl_program build_source(const Platform& platform, const OpenclDevice& device, const mydev_module_source& source) {
  const char* text = static_cast<const char*>(source.data);
  const size_t bytes = source.bytes;
  cl_int code = CL_SUCCESS;
  Program program(cl().clCreateProgramWithSource(platform.context(), 1, &text, &bytes, &code));
  check_cl(code, "clCreateProgramWithSource");
  std::string options = source.options == nullptr ? "" : source.options;
  if ((device_number<cl_bitfield>(device.id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0) {
    options += kExactDivision;
  }
  code = cl().clBuildProgram(program.get(), 1, &device.id, options.c_str(), nullptr, nullptr);
  require(code == CL_SUCCESS, MYDEV_INVALID_ARGUMENT, "the source does not compile, ", cl_code_name(code), ": ",
          build_log(program.get(), device.id));
  return program.release();
}

// A binary begins with a line that names what it is for: platforms may not survive another's bytes.
std::string binary_head(const OpenclDevice& device) {
  return "OpenCL binary of " + device_text(device.id, CL_DEVICE_NAME) + ", " +
         device_text(device.id, CL_DEVICE_VERSION) + ", " + device_text(device.id, CL_DRIVER_VERSION) + "\n";
}

cl_program build_binary(const Platform& platform, const OpenclDevice& device, const mydev_module_source& source) {
  const std::string head = binary_head(device);
  const std::string_view given(static_cast<const char*>(source.data), source.bytes);
  require(given.starts_with(head), MYDEV_FAILED_PRECONDITION,
          "the binary is not one of this device: it does not begin ", "with '", head.substr(0, head.size() - 1), "'");
  const auto* data = static_cast<const unsigned char*>(source.data) + head.size();
  const size_t bytes = source.bytes - head.size();
  cl_int code = CL_SUCCESS, of_binary = CL_SUCCESS;
  Program program(cl().clCreateProgramWithBinary(platform.context(), 1, &device.id, &bytes, &data, &of_binary, &code));
  if (code == CL_SUCCESS) code = of_binary;
  if (code == CL_SUCCESS) code = cl().clBuildProgram(program.get(), 1, &device.id, "", nullptr, nullptr);
  require(code == CL_SUCCESS, MYDEV_FAILED_PRECONDITION, "the binary is refused: ", cl_code_name(code));
  return program.release();
}

// The program's bytes: of the one device that it is built for. There may be entries for others of the context, which
// are empty, and the entry of a part of a device may be that of the whole.
std::string bytes_of_program(cl_program program) {
  cl_uint count = 0;
  check_cl(cl().clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof(count), &count, nullptr), "clGetProgramInfo");
  std::vector<size_t> sizes(count);
  check_cl(cl().clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof(size_t), sizes.data(), nullptr),
           "clGetProgramInfo");
  std::vector<std::string> all(count);
  std::vector<char*> places(count);
  for (cl_uint i = 0; i < count; ++i) {
    all[i].resize(sizes[i]);
    places[i] = all[i].data();
  }
  check_cl(cl().clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof(char*), static_cast<void*>(places.data()),
                                 nullptr),
           "clGetProgramInfo");
  const auto built = std::ranges::find_if(all, [](const std::string& bytes) { return !bytes.empty(); });
  require(built != all.end(), MYDEV_UNAVAILABLE, "the program has no binary");
  return *built;
}

}  // namespace

mydev_compiler_properties compiler_properties(const OpenclDevice& device, mydev_parameter_form parameters) {
  std::array<size_t, 3> group{1, 1, 1};
  check_cl(cl().clGetDeviceInfo(device.id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(group), group.data(), nullptr),
           "clGetDeviceInfo");
  const uint64_t threads = std::max<uint64_t>(device_number<size_t>(device.id, CL_DEVICE_MAX_WORK_GROUP_SIZE), 1);
  // All threads of a dimension are counted by a number of as many bits as the device's addresses.
  const auto bits = device_number<cl_uint>(device.id, CL_DEVICE_ADDRESS_BITS);
  const auto clamped = [](uint64_t value) { return static_cast<uint32_t>(std::clamp<uint64_t>(value, 1, UINT32_MAX)); };
  mydev_compiler_properties made{.struct_size = sizeof(mydev_compiler_properties),
                                 .max_group_threads = clamped(threads),
                                 .parameters = static_cast<uint32_t>(parameters),
                                 .features = MYDEV_COMPILER_ATOMIC_F32,
                                 .fault_word = 1};
  for (size_t d = 0; d < group.size(); ++d) {
    made.max_group[d] = clamped(group[d]);
    made.max_grid[d] = clamped(bits < 64 ? UINT32_MAX / std::min<uint64_t>(group[d], threads) : UINT32_MAX);
  }
  if (has_device_extension(device.id, "cl_khr_fp64")) made.features |= MYDEV_COMPILER_F64;
  if (has_device_extension(device.id, "cl_khr_int64_base_atomics")) made.features |= MYDEV_COMPILER_ATOMIC_S64;
  // On processors erf and tanh are calls for each element, where exp is a vector's.
  if ((device_number<cl_bitfield>(device.id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0) {
    made.features |= MYDEV_COMPILER_SCALAR_MATH;
  }
  return made;
}

// --- modules ---------------------------------------------------------------------------------------------------------

struct KernelModule::Kernel {
  std::string name;
  cl_kernel kernel = nullptr;
  cl_uint parameters = 0;
  mydev_kernel record{};
  std::mutex mutex;  // from the first parameter of a launch to its command

  ~Kernel() {
    if (kernel != nullptr) cl().clReleaseKernel(kernel);
  }
};

std::unique_ptr<KernelModule> KernelModule::make(const Platform& platform, const OpenclDevice& device,
                                                 const mydev_module_source& source) {
  const std::string_view language = source.language;
  const bool binary = language == MYDEV_MODULE_BINARY;
  require(binary || language == "opencl-c", MYDEV_INVALID_ARGUMENT, "the OpenCL driver compiles no '", language,
          "'; it takes 'opencl-c' and '" MYDEV_MODULE_BINARY "'");
  cl_program program = binary ? build_binary(platform, device, source) : build_source(platform, device, source);
  return std::unique_ptr<KernelModule>(new KernelModule(device, program));
}

KernelModule::KernelModule(const OpenclDevice& device, cl_program program) : device_(device), program_(program) {}

KernelModule::~KernelModule() {
  kernels_.clear();
  cl().clReleaseProgram(program_);
}

const mydev_kernel* KernelModule::kernel(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(name); known != kernels_.end()) return &known->second->record;
  auto made = std::make_unique<Kernel>();
  cl_int code = CL_SUCCESS;
  made->kernel = cl().clCreateKernel(program_, name.c_str(), &code);
  require(code != CL_INVALID_KERNEL_NAME, MYDEV_NOT_FOUND, "the module has no kernel '", name, "'");
  check_cl(code, "clCreateKernel");
  check_cl(cl().clGetKernelInfo(made->kernel, CL_KERNEL_NUM_ARGS, sizeof(made->parameters), &made->parameters, nullptr),
           "clGetKernelInfo");
  made->name = name;
  made->record = {.struct_size = sizeof(mydev_kernel),
                  .name = made->name.c_str(),
                  .driver_data = made.get(),
                  .traits = MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE,
                  .runs = MYDEV_RUNS_DRIVER};
  return &kernels_.emplace(name, std::move(made)).first->second->record;
}

std::string_view KernelModule::binary() {
  const std::lock_guard lock(mutex_);
  if (binary_.empty()) binary_ = binary_head(device_) + bytes_of_program(program_);
  return binary_;
}

// --- launches --------------------------------------------------------------------------------------------------------

namespace {

void check_geometry(const mydev_geometry& geometry) {
  const auto& [gx, gy, gz] = geometry.grid;
  const auto& [tx, ty, tz] = geometry.group;
  const bool empty = gx == 0 || gy == 0 || gz == 0 || tx == 0 || ty == 0 || tz == 0;
  require(!empty, MYDEV_INVALID_ARGUMENT, "a launch of ", gx, " x ", gy, " x ", gz, " groups of ", tx, " x ", ty, " x ",
          tz, " threads; each dimension is at least 1");
  require(geometry.local_memory == 0, MYDEV_INVALID_ARGUMENT, "a launch with ", geometry.local_memory,
          " bytes of memory for each group; in OpenCL C the code declares it");
}

void set_numbers(cl_kernel kernel, cl_uint& next, const mydev_frame& frame) {
  for (const mydev_attribute& number : std::span(frame.attributes, frame.num_attributes)) {
    require(number.kind == MYDEV_ATTRIBUTE_INT || number.kind == MYDEV_ATTRIBUTE_FLOAT, MYDEV_INVALID_ARGUMENT,
            "attribute '", number.name, "' is neither an INT nor a FLOAT, but of kind ", number.kind);
    const void* value = &number.value.f;
    if (number.kind == MYDEV_ATTRIBUTE_INT) value = &number.value.i;
    check_cl(cl().clSetKernelArg(kernel, next++, sizeof(int64_t), value), "clSetKernelArg");
  }
}

}  // namespace

void launch_of_module(OpenclStream& stream, const DeviceMemory& memory, const mydev_kernel& record,
                      const mydev_frame& frame, const mydev_geometry& geometry) {
  auto& kernel = *static_cast<KernelModule::Kernel*>(record.driver_data);
  check_geometry(geometry);
  const uint32_t buffers = frame.num_outputs + frame.num_inputs;
  const uint32_t of_buffer = memory.parameters() == MYDEV_PARAMETERS_BASE_AND_OFFSET ? 2 : 1;
  const uint32_t given = of_buffer * buffers + frame.num_attributes + 1;
  require(given == kernel.parameters, MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name, "' has ", kernel.parameters,
          " parameters, and is launched with ", buffers, " buffers and ", frame.num_attributes, " numbers, which are ",
          given, " with the fault word");
  std::array<size_t, 3> global{}, group{};
  for (size_t d = 0; d < global.size(); ++d) {
    group[d] = geometry.group[d];
    global[d] = group[d] * geometry.grid[d];
  }
  const std::lock_guard lock(kernel.mutex);
  cl_uint next = 0;
  for (uint32_t i = 0; i < buffers; ++i) memory.set_parameter(kernel.kernel, next, frame.buffers[i].data);
  set_numbers(kernel.kernel, next, frame);
  stream.enqueue_checked(
      {MYDEV_ACTIVITY_LAUNCH, record.name}, [&](cl_command_queue queue, cl_event* out_event, cl_mem fault_word) {
        check_cl(cl().clSetKernelArg(kernel.kernel, next, sizeof(cl_mem), static_cast<const void*>(&fault_word)),
                 "clSetKernelArg");
        const cl_int code = cl().clEnqueueNDRangeKernel(queue, kernel.kernel, 3, nullptr, global.data(), group.data(),
                                                        0, nullptr, out_event);
        const bool fits = code != CL_INVALID_WORK_GROUP_SIZE && code != CL_INVALID_WORK_ITEM_SIZE;
        require(fits, MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name, "' does not run in groups of ", group[0], " x ",
                group[1], " x ", group[2], " threads here: ", cl_code_name(code));
        check_cl(code, "clEnqueueNDRangeKernel");
      });
}

}  // namespace mydev::opencl_driver
