/* Writes its own registers and stack to standard output: how program and stack.bin were made.

   aarch64-linux-gnu-gcc -O2 -nostdlib -static -ffreestanding -fno-stack-protector -fasynchronous-unwind-tables \
       -mbranch-protection=standard -Wl,--eh-frame-hdr -Wl,-z,max-page-size=4096 -o program capture.c
   qemu-aarch64 -cpu max ./program > stack.bin */

#define KEPT __attribute__((noinline, noipa))

struct capture {
    unsigned long registers[33];  /* x0 to x30, sp, pc */
    unsigned char stack[2048];
};

static struct capture captured;
static volatile long sum;

static long write_out(const void *data, unsigned long size)
{
    register long x0 __asm__("x0") = 1;
    register const void *x1 __asm__("x1") = data;
    register unsigned long x2 __asm__("x2") = size;
    register long x8 __asm__("x8") = 64;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x8) : "memory");
    return x0;
}

KEPT void capture(void)
{
    struct capture *to = &captured;
    __asm__ volatile(
        "stp x0, x1, [%0, 0]\n stp x2, x3, [%0, 16]\n stp x4, x5, [%0, 32]\n stp x6, x7, [%0, 48]\n"
        "stp x8, x9, [%0, 64]\n stp x10, x11, [%0, 80]\n stp x12, x13, [%0, 96]\n stp x14, x15, [%0, 112]\n"
        "stp x16, x17, [%0, 128]\n stp x18, x19, [%0, 144]\n stp x20, x21, [%0, 160]\n stp x22, x23, [%0, 176]\n"
        "stp x24, x25, [%0, 192]\n stp x26, x27, [%0, 208]\n stp x28, x29, [%0, 224]\n"
        "mov x10, sp\n stp x30, x10, [%0, 240]\n adr x11, .\n str x11, [%0, 256]\n"
        :
        : "r"(to)
        : "x10", "x11", "memory");
    const unsigned char *stack = (const unsigned char *)to->registers[31];
    for (int i = 0; i < (int)sizeof to->stack; i++)
        to->stack[i] = ((volatile const unsigned char *)stack)[i];
    write_out(to, sizeof *to);
}

KEPT void inner(long depth)
{
    volatile long room[40];
    room[depth] = depth;
    capture();
    sum += room[depth];
}

KEPT void outer(long depth)
{
    if (depth)
        outer(depth - 1);
    else
        inner(depth);
    sum += depth;
}

/* The stack grows by an amount known only at run time: the frame pointer is the base of the rule. */
KEPT void flexible(long size)
{
    volatile char *room = __builtin_alloca(size);
    room[0] = 1;
    outer(2);
    sum += room[0];
}

KEPT void leave(void)
{
    register long x0 __asm__("x0") = 0;
    register long x8 __asm__("x8") = 93;
    __asm__ volatile("svc 0" : : "r"(x0), "r"(x8));
}

KEPT void program(void)
{
    flexible(sum + 100);
    leave();
}

__asm__(".globl _start\n.type _start, %function\n_start:\n.cfi_startproc\n.cfi_undefined x30\n"
        "mov x29, 0\nmov x30, 0\nsub sp, sp, 2048\nbl program\nbrk 1\n.cfi_endproc\n.size _start, . - _start\n");
