#!/usr/bin/env bash
# Spark needs Java 17 or newer: from JAVA_HOME or the path; else the distribution's headless JRE, if we may install it.
set -u

major() { "$1" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1; }

java_found=""
if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then java_found="$JAVA_HOME/bin/java"
elif command -v java >/dev/null 2>&1; then java_found=$(command -v java); fi
if [ -n "$java_found" ]; then
  version=$(major "$java_found")
  [ "${version:-0}" -ge 17 ] && exit 0
  echo "found Java ${version:-unknown} at $java_found; Spark needs 17 or newer" >&2
fi

install=""
if command -v apt-get >/dev/null 2>&1; then install="apt-get install -y --no-install-recommends openjdk-17-jre-headless || apt-get install -y --no-install-recommends default-jre-headless"
elif command -v dnf >/dev/null 2>&1; then install="dnf install -y java-17-openjdk-headless"
elif command -v apk >/dev/null 2>&1; then install="apk add openjdk17-jre-headless"
elif command -v brew >/dev/null 2>&1; then install="brew install openjdk@17"; fi

if [ -n "$install" ] && [ "$(id -u)" = 0 ]; then
  echo "installing a Java runtime for Spark ..." >&2
  command -v apt-get >/dev/null 2>&1 && apt-get update -qq
  DEBIAN_FRONTEND=noninteractive bash -c "$install" >/dev/null && exit 0
fi
if [ -n "$install" ]; then echo "Java 17 or newer is missing; install it with: sudo bash -c '$install'" >&2
else echo "Java 17 or newer is missing; install a JDK and set JAVA_HOME" >&2; fi
exit 1
