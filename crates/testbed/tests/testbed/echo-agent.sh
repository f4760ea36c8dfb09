#!/bin/sh
# Answers every line with a copy of it, and does a few other things on request.
case "$*" in *--version*) echo "2.1.37 (Echo)"; exit 0;; esac
trap 'echo "{\"type\":\"result\",\"subtype\":\"interrupted\"}"; [ -z "$waiting" ] || kill "$waiting"; exit 7' INT
echo "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"$(pwd)\",\"arguments\":\"$*\"}"
while read -r line; do
    case "$line" in
    *'"do-fail"'*) echo "it failed" >&2; exit 3 ;;
    *'"do-file"'*) echo "milk" > made.txt ;;
    *'"do-child"'*) sh -c 'while :; do sleep 0.05; done # lingering' & child=$! ;;
    *'"do-kill"'*) kill $child ;;
    # A signal ends `wait` at once, and `read` only with the next line.
    *'"do-wait"'*) sleep 60 >&2 & waiting=$!; echo "waiting"; wait $waiting ;;
    *'"do-plain"'*) echo "not JSON" ;;
    *'"do-ask"'*)
        echo '{"type":"control_request","request_id":"r2","request":{"subtype":"can_use_tool","input":{"n":2}}}'
        echo '{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","input":{"n":1}}}' ;;
    *) echo "{\"type\":\"assistant\",\"uuid\":\"9c5b94b1-35ad-49bb-b118-8e8fc24abf80\",\"input\":$line}" ;;
    esac
    echo '{"type":"result","subtype":"success"}'
done
