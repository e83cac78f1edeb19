# Routines in assembly that state no sizes, with loops, branches, calls and NASM's kind of local labels.
        .intel_syntax noprefix
        .text
        .globl sum, swap, both_ways, leaf
        .p2align 4
sum:
        xor     eax, eax
        test    rsi, rsi
        je      1f
sum.loop:
        add     rax, [rdi]
        add     rdi, 8
        dec     rsi
        jne     sum.loop
1:      ret
end_of_sum:
        .p2align 4
# Its table for unwinding is there, its size is not.
swap:
        .cfi_startproc
        mov     rax, [rdi]
        xchg    rax, [rsi]
        mov     [rdi], rax
        ret
        .cfi_endproc
end_of_swap:
        .p2align 4
# Goes backward and forward, and calls.
both_ways:
        jmp     2f
1:      call    leaf
        vpaddd  ymm0, ymm0, ymm1
        ret
2:      test    edi, edi
        js      3f
        jmp     1b
3:      mov     eax, 39
        syscall
        jmp     1b
end_of_both_ways:
        .p2align 4
leaf:
        endbr64
        ud2
end_of_leaf:
        .p2align 4
        .section .note.GNU-stack,"",@progbits
