/* A key-value store as memcached is one: a hash table with chains, items of different sizes from the allocator, keys by
   Zipf's law, nine gets for each put.

   store [ITEMS [REQUESTS]]: 1,000,000 items and 3,000,000 requests unless others are given. */
#include "number.h"
#include <math.h>
#include <string.h>

struct item {
    struct item *next;
    uint64_t key;
    uint32_t bytes;
    char value[];
};

static struct item **buckets;
static uint64_t bucket_count;

static struct item **place(uint64_t key) {
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    struct item **at = &buckets[(unsigned __int128)hash * bucket_count >> 64];
    while (*at && (*at)->key != key) at = &(*at)->next;
    return at;
}

static void put(uint64_t key) {
    struct item **at = place(key), *old = *at;
    uint32_t bytes = 16 + (uint32_t)draw_below(240);
    struct item *item = room(1, sizeof *item + bytes);
    item->next = old ? old->next : NULL;
    item->key = key;
    item->bytes = bytes;
    memset(item->value, (char)key, bytes);
    *at = item;
    free(old);
}

static uint64_t get(uint64_t key, char *answer) {
    struct item *item = *place(key);
    if (!item) return 0;
    memcpy(answer, item->value, item->bytes);
    return item->bytes;
}

/* A key whose rank follows Zipf's law with exponent 1: the logarithm of the rank is uniform. Ranks are spread over all keys. */
static uint64_t zipf(uint64_t items) {
    double uniform = (double)(draw() >> 11) * 0x1p-53;
    uint64_t rank = (uint64_t)exp(uniform * log((double)items));
    return rank * UINT64_C(2654435761) % items;
}

int main(int count, char **arguments) {
    uint64_t items = number(count, arguments, 1, "ITEMS", 1000000);
    uint64_t requests = number(count, arguments, 2, "REQUESTS", 3000000), sum = 0;
    char answer[256];
    bucket_count = items;
    buckets = room(bucket_count, sizeof *buckets);
    memset(buckets, 0, bucket_count * sizeof *buckets);
    for (uint64_t key = 0; key < items; key++) put(key);
    for (uint64_t n = 0; n < requests; n++) {
        uint64_t key = zipf(items);
        if (draw_below(10) == 0) put(key);
        else sum += get(key, answer) + (unsigned char)answer[0];
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
