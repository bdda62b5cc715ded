/* Start of a program on the Cortex-M images of QEMU's mps2 boards: vectors, the floating
 * point unit, memory, and a count of instructions. Output is newlib's semihosting. */
#include <stdint.h>

extern uint32_t stack_top, data_load, data_begin, data_end, bss_begin, bss_end;

int main(void);
void _exit(int);
void initialise_monitor_handles(void);

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYSTICK_CONTROL REGISTER(0xe000e010)
#define SYSTICK_RELOAD REGISTER(0xe000e014)
#define SYSTICK_VALUE REGISTER(0xe000e018)
#define COPROCESSOR_ACCESS REGISTER(0xe000ed88)

/* Under -icount shift=0 an instruction takes 1 ns of QEMU's clock, and SysTick counts
 * the boards' 25 MHz: 40 instructions a tick. */
enum { PER_TICK = 40, TICKS = 0xffffff };

unsigned long instructions(void)
{
    static unsigned long total;
    static uint32_t last = TICKS;
    const uint32_t now = SYSTICK_VALUE;

    total += PER_TICK * ((last - now) & TICKS);
    last = now;
    return total;
}

void reset(void)
{
    uint32_t *to;
    const uint32_t *from = &data_load;

    COPROCESSOR_ACCESS |= 0xf << 20;
    __asm volatile("dsb\n isb");
    for (to = &data_begin; to < &data_end;)
        *to++ = *from++;
    for (to = &bss_begin; to < &bss_end;)
        *to++ = 0;
    SYSTICK_RELOAD = TICKS;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 5; /* counts the processor's clock, without interrupts */
    initialise_monitor_handles();
    _exit(main());
}

static void fault(void)
{
    _exit(3);
}

__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {
    (void (*)(void))&stack_top, reset, fault, fault, fault, fault, fault,
};
