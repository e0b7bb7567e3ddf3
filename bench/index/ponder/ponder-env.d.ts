/// <reference types="ponder/virtual" />
