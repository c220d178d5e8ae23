#!/bin/sh
# Makes the files of ./secrets that are missing; changes none. Four have random words, and the others are
# empty, which stands for none: model_key, embeddings_key, broker_password.
set -eu

folder="${TURNMILL_SECRETS:-$(dirname "$0")/../secrets}"

random() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

# Only you get into the folder. The files are open: containers read them, as users of their own.
mkdir -p -m 700 "$folder"
cd "$folder"
umask 333
for name in redis_password archive_password grafana_password; do
    [ -e "$name" ] || random > "$name"
done
[ -e flower_basic_auth ] || printf 'turnmill:%s\n' "$(random)" > flower_basic_auth
umask 133
for name in broker_password embeddings_key model_key; do
    [ -e "$name" ] || : > "$name"
done
