/* Instructions with unusual memory references: string operations, x87, locked and double-word exchanges, vector
   gathers and masks, whole register states. */

#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>

static char from[8192], to[8192];
static __attribute__((aligned(64))) char state[4096];
static __attribute__((aligned(16))) struct { uint64_t low, high; } pair;
static long double extended[100];

__attribute__((target("avx2"))) static int vectors(void)
{
   __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
   __m256i mask = _mm256_setr_epi32(-1, 0, -1, 0, -1, 0, -1, 0);
   __m256i gathered = _mm256_i32gather_epi32((int*)from, index, 4);
   _mm256_maskstore_epi32((int*)to, mask, _mm256_maskload_epi32((int*)from, mask));
   _mm256_storeu_si256((__m256i*)(to + 64), gathered);
   return to[64];
}

static void strings(void)
{
   void *d = to, *s = from;
   unsigned long n = 5000;
   __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
   d = to, n = 0;
   __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(0) : "memory");
   d = to, n = 100;
   __asm__ volatile("repne scasb" : "+D"(d), "+c"(n) : "a"(77) : "memory", "cc");
}

static void exchanges(void)
{
   uint64_t low = pair.low, high = pair.high;
   __asm__ volatile("lock cmpxchg16b %2"
                    : "+a"(low), "+d"(high), "+m"(pair)
                    : "b"(low + 1), "c"(high)
                    : "cc");
   __asm__ volatile("lock incl %0; incl %0; addb $3, %0; btsl %1, %0; pushq %0; popq %0"
                    : "+m"(*(long*)to)
                    : "r"(3)
                    : "cc");
}

static void states(void)
{
   __asm__ volatile("fxsave (%0); fxrstor (%0)" : : "r"(state) : "memory");
   __asm__ volatile("fnstenv (%0); fldenv (%0); fnsave (%0); frstor (%0)" : : "r"(state) : "memory");
}

int main(void)
{
   for (int i = 0; i < 100; i++) {
      strings();
      exchanges();
      states();
      extended[i] = extended[i * 7 % 100] * 1.5L + i;
   }
   printf("%d %d\n", (int)pair.low, __builtin_cpu_supports("avx2") ? vectors() : 0);
   return 0;
}
