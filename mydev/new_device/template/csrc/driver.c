/* The driver of ACME's cards: each entry of mydev/driver.h in calls of the card's library, card.h. Replace these calls
 * by those of your library, entry by entry from the top, and run `mydev conform driver` after each.
 *
 * Work is asynchronous: launches, copies and fills are given to a queue. The host does not reach the card's memory.
 *
 * Options: devices=N (1 to 4), memory=MIB (of each device; 256), blocking (each call waits for its work: for
 * debugging).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acme.h"
#include "card.h"

/* --- errors ------------------------------------------------------------------------------------------------------- */

static __thread char message[512];

mydev_code acme_fail(mydev_code code, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof(message), format, values);
  va_end(values);
  return code;
}

/* The code of a call of the card's library, with the library's message. */
static mydev_code checked(mydev_code code) {
  return code == MYDEV_OK ? MYDEV_OK : acme_fail(code, "%s", card_error());
}

static const char* last_error(void) {
  return message;
}

/* --- life and devices --------------------------------------------------------------------------------------------- */

static int32_t num_devices = 1;
static uint64_t memory_bytes = UINT64_C(256) << 20;
static int blocking = 0;

// [docs: initialize]
static mydev_code read_option(const char* option) {
  long value = 0;
  char rest = 0; /* what comes after the number: nothing may */
  if (sscanf(option, "devices=%ld%c", &value, &rest) == 1 && value >= 1 && value <= CARD_MOST_DEVICES) {
    num_devices = (int32_t)value;
  } else if (sscanf(option, "memory=%ld%c", &value, &rest) == 1 && value >= 1) {
    memory_bytes = (uint64_t)value << 20;
  } else if (strcmp(option, "blocking") == 0) {
    blocking = 1;
  } else {
    return acme_fail(MYDEV_INVALID_ARGUMENT,
                     "bad option '%s'; the acme driver takes devices=N (1 to %d), memory=MIB, blocking", option,
                     CARD_MOST_DEVICES);
  }
  return MYDEV_OK;
}

static mydev_code initialize(const char* options, const mydev_host_services* host) {
  char text[256], found[64], *rest = text;
  snprintf(text, sizeof(text), "%s", options);
  for (char* option = strsep(&rest, ","); option != NULL; option = strsep(&rest, ",")) {
    const mydev_code code = *option != '\0' ? read_option(option) : MYDEV_OK;
    if (code != MYDEV_OK) return code;
  }
  const mydev_code code = checked(card_initialize(num_devices, memory_bytes, blocking));
  if (code != MYDEV_OK) return code;
  snprintf(found, sizeof(found), "the acme driver simulates %d devices", (int)num_devices);
  host->log(MYDEV_LOG_INFO, found);
  return MYDEV_OK;
}
// [docs: end]

static mydev_code device_count(int32_t* out_count) {
  *out_count = num_devices;
  return MYDEV_OK;
}

// [docs: properties]
static mydev_code device_properties(int32_t device, mydev_device_properties* out) {
  snprintf(out->name, sizeof(out->name), "acme");
  out->total_memory = memory_bytes;
  out->alignment = CARD_ALIGNMENT;
  out->capabilities = blocking ? 0 : MYDEV_CAPABILITY_ASYNC | MYDEV_CAPABILITY_LAUNCH_COPIES;
  out->multi_processor_count = 1;
  return MYDEV_OK;
}
// [docs: end]

/* --- memory and copies -------------------------------------------------------------------------------------------- */

static card_queue* queue_of(mydev_stream stream) {
  return (card_queue*)stream;
}

// [docs: memory]
static mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  return checked(card_allocate(device, bytes, out_data));
}

static mydev_code memory_free(int32_t device, void* data, uint64_t bytes) {
  return checked(card_release(device, data, bytes));
}
// [docs: end]

// [docs: copy]
static mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  const mydev_code code = checked(card_copy(queue_of(stream), dst, src, bytes, kind));
  /* There is no host_alloc, so all host memory is ordinary memory: the caller's again when this returns. */
  if (code == MYDEV_OK && kind != MYDEV_COPY_DEVICE_TO_DEVICE) card_queue_wait(queue_of(stream));
  return code;
}
// [docs: end]

static mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  return checked(card_fill(queue_of(stream), dst, bytes, pattern, pattern_bytes));
}

/* --- streams: a queue of the card each ---------------------------------------------------------------------------- */

// [docs: streams]
static mydev_code stream_create(int32_t device, int32_t priority, mydev_stream* out_stream) {
  *out_stream = (mydev_stream)card_queue_create(device);
  return MYDEV_OK;
}

static mydev_code stream_destroy(mydev_stream stream) {
  card_queue_destroy(queue_of(stream));
  return MYDEV_OK;
}

static mydev_code stream_query(mydev_stream stream, int32_t* out_done) {
  *out_done = card_queue_is_done(queue_of(stream));
  return MYDEV_OK;
}

static mydev_code stream_synchronize(mydev_stream stream) {
  card_queue_wait(queue_of(stream));
  return MYDEV_OK;
}
// [docs: end]

// [docs: status]
static mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  *out_status = checked(card_queue_take_failure(queue_of(stream)));
  return MYDEV_OK;
}

static mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context) {
  return checked(card_call(queue_of(stream), function, context));
}
// [docs: end]

/* --- events ------------------------------------------------------------------------------------------------------- */

static card_event* event_of(mydev_event event) {
  return (card_event*)event;
}

// [docs: events]
static mydev_code event_create(int32_t device, uint32_t flags, mydev_event* out_event) {
  *out_event = (mydev_event)card_event_create();
  return MYDEV_OK;
}

static mydev_code event_destroy(mydev_event event) {
  card_event_destroy(event_of(event));
  return MYDEV_OK;
}

static mydev_code event_record(mydev_event event, mydev_stream stream) {
  return checked(card_event_record(event_of(event), queue_of(stream)));
}

static mydev_code stream_wait_event(mydev_stream stream, mydev_event event) {
  return checked(card_queue_wait_event(queue_of(stream), event_of(event)));
}

static mydev_code event_query(mydev_event event, int32_t* out_done) {
  *out_done = card_event_is_done(event_of(event));
  return MYDEV_OK;
}

static mydev_code event_synchronize(mydev_event event) {
  card_event_wait(event_of(event));
  return MYDEV_OK;
}

static mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds) {
  return checked(card_event_elapsed(event_of(start), event_of(end), out_milliseconds));
}
// [docs: end]

/* --- work --------------------------------------------------------------------------------------------------------- */

// [docs: launch]
static mydev_code list_kernels(int32_t device, const mydev_kernel* const** out_kernels) {
  *out_kernels = acme_kernels();
  return MYDEV_OK;
}

static const mydev_kernel* find_kernel(int32_t device, const char* name) {
  for (const mydev_kernel* const* kernel = acme_kernels(); *kernel != NULL; ++kernel) {
    if (strcmp(name, (*kernel)->name) == 0) return *kernel;
  }
  return NULL;
}

/* The runtime keeps to a record's limits. A launch beyond them is refused at once: a message from here names
 * the operands. */
static mydev_code check_dtypes(const mydev_kernel* kernel, const mydev_frame* frame) {
  const uint64_t taken = kernel->limits != NULL ? kernel->limits->dtypes : 0;
  for (uint32_t i = 0; taken != 0 && i < frame->num_outputs + frame->num_inputs; ++i) {
    if ((taken & MYDEV_DTYPE_BIT(frame->buffers[i].dtype)) != 0) continue;
    const char* dtypes = taken == MYDEV_DTYPE_BIT(MYDEV_F32) ? "f32" : "other dtypes";
    return acme_fail(MYDEV_INVALID_ARGUMENT, "%s takes %s", kernel->name, dtypes);
  }
  return MYDEV_OK;
}

/* The frame is the caller's again when this returns: card_launch copies what the kernel needs of it. */
static mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  if (kernel != find_kernel(frame->device, kernel->name)) {
    return acme_fail(MYDEV_UNIMPLEMENTED, "the acme device has no kernel %s", kernel->name);
  }
  const mydev_code code = check_dtypes(kernel, frame);
  if (code != MYDEV_OK) return code;
  return checked(card_launch(queue_of(stream), kernel->entry, frame));
}
// [docs: end]
/* [with compiler] */

/* --- extensions --------------------------------------------------------------------------------------------------- */

static const mydev_extension extensions[] = {{MYDEV_COMPILER_EXTENSION, MYDEV_COMPILER_VERSION}};

static const void* extension(const char* name, uint32_t version) {
  return strcmp(name, MYDEV_COMPILER_EXTENSION) == 0 ? &acme_compiler : NULL;
}
/* [end] */

/* --- the table ---------------------------------------------------------------------------------------------------- */

// [docs: table]
static const mydev_driver_api api = {
    .struct_size = sizeof(mydev_driver_api),
    .version_major = MYDEV_DRIVER_VERSION_MAJOR,
    .version_minor = MYDEV_DRIVER_VERSION_MINOR,
    .name = "acme",
    .version = "1.0",
    .initialize = initialize,
    .last_error = last_error,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .copy = copy,
    .fill = fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .launch = launch,
    .find_kernel = find_kernel,
    .stream_status = stream_status,
    .stream_host_call = stream_host_call,
    /* [with compiler] */
    .extensions = extensions,
    .num_extensions = 1,
    .extension = extension,
    /* [end] */
    .list_kernels = list_kernels,
};

MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  /* A runtime of version 1.0 does not know LAUNCH_COPIES. */
  return version_major == MYDEV_DRIVER_VERSION_MAJOR && version_minor >= 1 ? &api : NULL;
}
// [docs: end]
