/* The first bytes of the agent, at TEXT_BASE.
 *
 * pagewalk lets a stopped thread of the program run the instruction at TEXT_BASE with the registers of a system call,
 * and stops it again behind it. The task that such a clone starts goes on here, on the stack STACK_BASE + 0x1000: it
 * starts the agent, waits until that is ready or was killed, and ends. The program's thread then takes its exit status, so the agent
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
    mov $202, %eax                  /* futex(&ready, FUTEX_WAIT, 0, patience) */
    lea 68(%rbx), %rdi
    xor %esi, %esi
    xor %edx, %edx
    lea patience(%rip), %r10
    syscall
    mov $61, %eax                   /* wait4(agent, 0, __WALL | WNOHANG, 0): nobody else tells of one that was killed */
    mov 64(%rbx), %edi
    xor %esi, %esi
    mov $0x40000001, %edx
    xor %r10d, %r10d
    syscall
    test %eax, %eax
    jz waiting
    movl $0, 64(%rbx)               /* agent: its number may soon be another's */
    cmpl $2, 68(%rbx)               /* it may have failed by itself */
    je done
    movq $3, 72(%rbx)               /* failure: ESRCH */
    movq $8, 80(%rbx)               /* step: STEP_KILLED */
    movl $2, 68(%rbx)
    jmp done
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
    .balign 8
patience:
    .quad 0, 100000000              /* a tenth of a second */

    .section .note.GNU-stack, "", @progbits
