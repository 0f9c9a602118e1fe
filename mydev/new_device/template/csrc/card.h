/* The library of a simulated card, which stands for yours: memory that the host cannot touch, and queues that work
 * while the host goes on. driver.c calls nothing else. Replace it by the library of your hardware, and delete card.cpp.
 *
 * Each function that returns a code has a message for its failure: card_error(), of the calling thread's last one.
 */
#ifndef ACME_CARD_H_
#define ACME_CARD_H_

#include "mydev/driver_extensions.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CARD_MOST_DEVICES 4
#define CARD_ALIGNMENT 256

typedef struct card_queue card_queue;
typedef struct card_event card_event;

/* `blocking`: all work is done when a call returns, which then has the work's code. */
MYDEV_EXPORT mydev_code card_initialize(int32_t devices, uint64_t memory_bytes, int32_t blocking);
MYDEV_EXPORT const char* card_error(void);

MYDEV_EXPORT mydev_code card_allocate(int32_t device, uint64_t bytes, void** out_data);
MYDEV_EXPORT mydev_code card_release(int32_t device, void* data, uint64_t bytes);

/* Work of a queue runs in the order of the calls. */
MYDEV_EXPORT card_queue* card_queue_create(int32_t device);
MYDEV_EXPORT void card_queue_destroy(card_queue* queue); /* waits for its work */
MYDEV_EXPORT int32_t card_queue_is_done(card_queue* queue);
MYDEV_EXPORT void card_queue_wait(card_queue* queue);
MYDEV_EXPORT mydev_code card_queue_take_failure(card_queue* queue); /* the first one of its work, once */
MYDEV_EXPORT mydev_code card_copy(card_queue* queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind);
MYDEV_EXPORT mydev_code card_fill(card_queue* queue, void* dst, uint64_t bytes, const void* pattern, uint32_t period);
MYDEV_EXPORT mydev_code card_call(card_queue* queue, mydev_host_function function, void* context);
/* Runs the code on a copy of the frame, or, where launches block, on the frame itself, which is then as it was. Its
 * pointers are those that the card sees. A plan's decision is in it only while launches block: else it is gone when the
 * code runs. */
MYDEV_EXPORT mydev_code card_launch(card_queue* queue, mydev_kernel_fn code, const mydev_frame* frame);

/* An event is a place in a queue: the latest that was recorded. */
MYDEV_EXPORT card_event* card_event_create(void);
MYDEV_EXPORT void card_event_destroy(card_event* event);
MYDEV_EXPORT mydev_code card_event_record(card_event* event, card_queue* queue);
MYDEV_EXPORT mydev_code card_queue_wait_event(card_queue* queue, card_event* event);
MYDEV_EXPORT int32_t card_event_is_done(card_event* event);
MYDEV_EXPORT void card_event_wait(card_event* event);
MYDEV_EXPORT mydev_code card_event_elapsed(card_event* start, card_event* end, double* out_milliseconds);
/* [with compiler] */

/* The card's compiler, card_compiler.cpp. A launch keeps the code that it needs. */
typedef struct card_code card_code;
MYDEV_EXPORT const char* card_language(void);
MYDEV_EXPORT mydev_code card_compile(const char* source, uint64_t bytes, card_code** out_code);
MYDEV_EXPORT mydev_code card_load(const void* binary, uint64_t bytes, card_code** out_code);
MYDEV_EXPORT void card_code_binary(card_code* code, const void** out_data, uint64_t* out_bytes);
MYDEV_EXPORT void card_code_release(card_code* code);
MYDEV_EXPORT void* card_code_function(card_code* code, const char* name); /* NULL: there is none */
MYDEV_EXPORT void card_compiler_properties(mydev_compiler_properties* out);
MYDEV_EXPORT mydev_code card_launch_function(card_queue* queue, card_code* code, void* function,
                                             const mydev_frame* frame, const mydev_geometry* geometry);
/* [end] */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* ACME_CARD_H_ */
