/* A 32-bit program: gcc -m32 -nostdlib -static. Says "ready" and computes. */
static const char message[] = "ready\n";
static volatile int sum;

void _start(void)
{
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(4), "b"(1), "c"(message), "d"(6) : "memory");
    for (;;)
        sum += result;
}
