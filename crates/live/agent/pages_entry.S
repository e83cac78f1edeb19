/* Where the jumps of a program's calls lead, by way of a few bytes for each (pages/code.rs), which step over the red
 * zone and come back behind the call. As for a system call only rax, rcx and r11 may change. */
    .text
    .globl entry
entry:
    push %rbx
    push %rbp
    push %rdi
    push %rsi
    push %rdx
    push %r10
    push %r8
    push %r9
    mov %rsp, %rbp
    mov %rsp, %rdi
    mov %rax, %rsi
    mov table(%rip), %rdx
    and $-16, %rsp
    call pages_call
    mov %rbp, %rsp
    pop %r9
    pop %r8
    pop %r10
    pop %rdx
    pop %rsi
    pop %rdi
    pop %rbp
    pop %rbx
    ret
    .p2align 3
    .globl table
table:
    .quad 0x1122334455667788        /* The table's address, filled in; pages/code.rs looks for this number. */

    .section .note.GNU-stack, "", @progbits
