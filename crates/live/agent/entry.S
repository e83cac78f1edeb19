/* The first bytes of the agent, at TEXT_BASE.
 *
 * pagewalk lets a stopped thread of the program run the instruction at TEXT_BASE with the registers of a system call,
 * and stops it again behind it. The task that such a clone starts goes on here, on the stack STACK_BASE + 0x1000: it
 * starts the agent, waits until that is ready, and ends. The program's thread then takes its exit status, so the agent
 * is an orphan: no child of the program's that it could wait for.
 */
    .text
    .globl entry
entry:
    syscall
    test %eax, %eax
    jz starter
    int3                            /* Never reached: pagewalk sets the registers back. */
starter:
    mov $56, %eax                   /* clone */
    mov $0x00800100, %edi           /* CLONE_UNTRACED | CLONE_VM, no signal at the end */
    movabs $(0x6a5000004000 + 0x8000 - 16), %rsi
    xor %edx, %edx
    xor %r10d, %r10d
    xor %r8d, %r8d
    syscall
    test %eax, %eax
    jz agent_main_begins
    movabs $0x6a5000004000, %rbx    /* struct start */
    mov %eax, 64(%rbx)              /* agent */
    js failed
waiting:
    mov 68(%rbx), %eax              /* ready */
    test %eax, %eax
    jnz done
    mov $202, %eax                  /* futex(&ready, FUTEX_WAIT, 0) */
    lea 68(%rbx), %rdi
    xor %esi, %esi
    xor %edx, %edx
    xor %r10d, %r10d
    syscall
    jmp waiting
failed:
    neg %eax
    cltq
    mov %rax, 72(%rbx)              /* failure */
    movq $1, 80(%rbx)               /* step: STEP_CLONE */
    movl $2, 68(%rbx)
done:
    mov $60, %eax                   /* exit */
    xor %edi, %edi
    syscall
agent_main_begins:
    xor %ebp, %ebp
    and $-16, %rsp
    call agent_main

    .section .note.GNU-stack, "", @progbits
