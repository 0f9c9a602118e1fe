/* The extension "compiler" (mydev/driver_extensions.h): kernels from source at run time. With it the device has every
 * portable kernel, in eager mode, graphs, torch.compile and JAX. Replace the calls of card.h by those of your compiler.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acme.h"
#include "card.h"

/* A kernel of a module. Its record lives as long as the module. */
typedef struct compiled_kernel {
  mydev_kernel record;
  card_code* code;
  void* function;
  struct compiled_kernel* next;
} compiled_kernel;

typedef struct module {
  card_code* code;
  compiled_kernel* kernels;
  pthread_mutex_t mutex; /* guards `kernels` */
} module;

static mydev_code checked(mydev_code code) {
  return code == MYDEV_OK ? MYDEV_OK : acme_fail(code, "%s", card_error());
}

static mydev_code languages(int32_t device, const char* const** out_languages) {
  static const char* names[2];
  names[0] = card_language();
  *out_languages = names;
  return MYDEV_OK;
}

static mydev_code properties(int32_t device, mydev_compiler_properties* out) {
  card_compiler_properties(out);
  return MYDEV_OK;
}

// [docs: module]
static mydev_code module_create(int32_t device, const mydev_module_source* source, mydev_module* out_module) {
  card_code* code = NULL;
  mydev_code failure = MYDEV_OK;
  if (strcmp(source->language, MYDEV_MODULE_BINARY) == 0) {
    failure = checked(card_load(source->data, source->bytes, &code));
  } else if (strcmp(source->language, card_language()) == 0 && source->options[0] == '\0') {
    failure = checked(card_compile((const char*)source->data, source->bytes, &code));
  } else {
    failure = acme_fail(MYDEV_INVALID_ARGUMENT, "no compiler for '%s' with options '%s'; give '%s' and none",
                        source->language, source->options, card_language());
  }
  if (failure != MYDEV_OK) return failure;
  module* made = (module*)calloc(1, sizeof(module));
  made->code = code;
  pthread_mutex_init(&made->mutex, NULL);
  *out_module = (mydev_module)made;
  return MYDEV_OK;
}
// [docs: end]

static mydev_code module_destroy(mydev_module handle) {
  module* gone = (module*)handle;
  for (compiled_kernel *kernel = gone->kernels, *next; kernel != NULL; kernel = next) {
    next = kernel->next;
    free((void*)kernel->record.name);
    free(kernel);
  }
  card_code_release(gone->code);
  pthread_mutex_destroy(&gone->mutex);
  free(gone);
  return MYDEV_OK;
}

static mydev_code module_binary(mydev_module handle, const void** out_data, uint64_t* out_bytes) {
  card_code_binary(((module*)handle)->code, out_data, out_bytes);
  return MYDEV_OK;
}

static compiled_kernel* new_kernel(module* owner, const char* name) {
  void* function = card_code_function(owner->code, name);
  if (function == NULL) return NULL;
  compiled_kernel* made = (compiled_kernel*)calloc(1, sizeof(compiled_kernel));
  made->record.struct_size = sizeof(mydev_kernel);
  made->record.name = strdup(name);
  made->record.runs = MYDEV_RUNS_DRIVER;
  made->record.driver_data = made;
  made->code = owner->code;
  made->function = function;
  made->next = owner->kernels;
  return owner->kernels = made;
}

static mydev_code module_kernel(mydev_module handle, const char* name, const mydev_kernel** out_kernel) {
  module* owner = (module*)handle;
  pthread_mutex_lock(&owner->mutex);
  compiled_kernel* kernel = owner->kernels;
  while (kernel != NULL && strcmp(kernel->record.name, name) != 0) kernel = kernel->next;
  if (kernel == NULL) kernel = new_kernel(owner, name);
  pthread_mutex_unlock(&owner->mutex);
  if (kernel == NULL) return acme_fail(MYDEV_NOT_FOUND, "the source has no kernel '%s'", name);
  *out_kernel = &kernel->record;
  return MYDEV_OK;
}

static mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame,
                         const mydev_geometry* geometry) {
  const compiled_kernel* compiled = (const compiled_kernel*)kernel->driver_data;
  return checked(card_launch_function((card_queue*)stream, compiled->code, compiled->function, frame, geometry));
}

const mydev_compiler_extension acme_compiler = {
    .head = {.struct_size = sizeof(mydev_compiler_extension), .version = MYDEV_COMPILER_VERSION, .reserved = 0},
    .languages = languages,
    .module_create = module_create,
    .module_destroy = module_destroy,
    .module_binary = module_binary,
    .module_kernel = module_kernel,
    .launch = launch,
    .properties = properties,
};
